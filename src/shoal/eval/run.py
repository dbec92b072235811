"""Asks a model every item of some suites, greedily, one after another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.engine.answer import Answer
from shoal.engine.engine import Engine
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import TokenizerError
from shoal.eval.check import BeginsWith
from shoal.eval.item import Conversation, Item, Passage, Question, Suite
from shoal.eval.outcome import Answered, Outcome, Scored, Skipped
from shoal.eval.perplexity import token_nats
from shoal.eval.result import EvalResult
from shoal.text.chat import render_chat
from shoal.text.reply import Reply, parse_reply
from shoal.text.tokenizer import Tokenizer


def run(engine: Engine, tokenizer: Tokenizer, suites: Sequence[Suite]) -> EvalResult:
    """All outcomes. To ask a changed model, give `Engine(model, engine.eos_id, engine.chunk_tokens)`."""
    return EvalResult(tuple(outcomes(engine, tokenizer, suites)))


def outcomes(engine: Engine, tokenizer: Tokenizer, suites: Sequence[Suite]) -> Iterator[Outcome]:
    """The outcome of every item of every suite, in order, each as soon as it is known.

    An item that the context cannot hold, its prompt and all tokens it may take, is skipped, and so is one whose prompt
    this vocabulary cannot spell. Raises what the engine raises.
    """
    for suite in suites:
        asking = _Asking(engine, tokenizer, suite.name)
        for item in suite.items:
            yield asking.outcome(item)


@dataclass(frozen=True)
class _Asking:
    engine: Engine
    tokenizer: Tokenizer
    suite: str

    def outcome(self, item: Item) -> Outcome:
        try:
            ids = self._ids(item)
        except TokenizerError as error:
            return Skipped(self.suite, item.group, item.line, error.message)
        needed = len(ids) + (item.max_new_tokens if isinstance(item, Question) else 0)
        context = self.engine.model.config.context_length
        if needed > context:
            reason = f"it needs a context of {needed:,} tokens, this one has {context:,}"
            return Skipped(self.suite, item.group, item.line, reason)
        return self._score(item, ids) if isinstance(item, Passage) else self._ask(item, ids)

    def _ids(self, item: Item) -> list[int]:
        if isinstance(item, Passage):
            return [*self.tokenizer.encode_prompt(item.text), self.engine.eos_id]
        if isinstance(item.prompt, Conversation):
            return render_chat(self.tokenizer, item.prompt.messages, item.prompt.options)
        return self.tokenizer.encode_prompt(item.prompt)

    def _score(self, item: Passage, ids: list[int]) -> Scored:
        nats = token_nats(self.engine.model, ids, self.engine.chunk_tokens)
        return Scored(self.suite, item.group, item.line, nats)

    def _ask(self, item: Question, ids: list[int]) -> Answered:
        request = Request(tuple(ids), SamplingOptions(max_new_tokens=item.max_new_tokens))
        answer = Answer(self.engine.stream(request), self.tokenizer, request.prompt_ids)
        text = ""
        for piece in answer:
            text += piece
            if _is_settled(item, text):
                break
        reason = answer.completion.finish_reason
        assert reason != "error", "an error is raised here"
        ended = reason == "stop"
        reply = _reply(item, text, ended)
        checks = {check.name: check.holds(reply, ended) for check in item.checks}
        finish = "decided" if reason == "interrupted" else reason
        return Answered(self.suite, item.group, item.line, len(ids), text, finish, checks)


def _is_settled(item: Question, text: str) -> bool:
    """Whether the rest of a reply no longer matters, which saves most of the time of short answers.

    Not where a marker could begin in it: the parser of a chat may drop one that text stands before.
    """
    if isinstance(item.prompt, Conversation) and (item.prompt.options.thinking or item.prompt.options.tools):
        return False
    match item.checks:
        case (BeginsWith() as only,):
            return "<" not in text and only.is_settled(text)
    return False


def _reply(item: Question, text: str, ended: bool) -> Reply:
    if not isinstance(item.prompt, Conversation):
        return Reply(text)
    options = item.prompt.options
    return parse_reply(text, thinking=options.thinking, tools=bool(options.tools), ended=ended)
