"""Many prompts through one engine, in the caller's thread, so that an interrupt reaches it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from shoal.engine.answer import Answer, Completion, Timings
from shoal.engine.engine import Engine
from shoal.engine.request import Request
from shoal.engine.ticket import Ticket
from shoal.engine.token_stream import TokenStream
from shoal.errors import PromptError, ShoalError
from shoal.text.tokenizer import Tokenizer


class Bar(Protocol):
    """Is told what is done."""

    def add_tokens(self, count: int) -> None:
        """So many more were generated."""
        ...

    def end_prompt(self) -> None:
        """One more prompt has its answer, or its error."""
        ...


@dataclass(frozen=True)
class _Open:
    """A prompt that is being answered, and its place in the order."""

    index: int
    ticket: Ticket
    answer: Answer


def answer_all(
    engine: Engine, tokenizer: Tokenizer, jobs: Sequence[Callable[[], Request]], bar: Bar
) -> list[Completion]:
    """The answers of what `jobs` give, in their order; what raises a ShoalError becomes a completion that says so.

    No more are submitted than run or will run next, so prompts are encoded as they are needed and none is refused by
    the queue. The engine has no thread of its own.
    """
    done: list[Completion | None] = [None] * len(jobs)
    left, running = iter(enumerate(jobs)), list[_Open]()
    most = engine.max_running + min(engine.max_running, engine.max_waiting)
    while True:
        while len(running) < most and (job := next(left, None)) is not None:
            begun = _begin(engine, tokenizer, *job)
            if isinstance(begun, Completion):
                done[job[0]] = begun
                bar.end_prompt()
            else:
                running.append(begun)
        if not running:
            break
        engine.step()
        for each in [each for each in running if each.ticket.is_ready]:
            if (completion := _read(each, bar)) is not None:
                done[each.index] = completion
                running.remove(each)
                bar.end_prompt()
    return [completion for completion in done if completion is not None]


def _begin(engine: Engine, tokenizer: Tokenizer, index: int, job: Callable[[], Request]) -> _Open | Completion:
    try:
        request = job()
        ticket = engine.submit(request)
    except PromptError as problem:
        return _failed(problem, Completion("", (), "error", (), Timings(None, 0.0, 0)))
    answer = Answer(TokenStream(ticket), tokenizer, request.prompt_ids, request.options.stop)
    return _Open(index, ticket, answer)


def _read(each: _Open, bar: Bar) -> Completion | None:
    """Read what has come; the completion where that was all."""
    try:
        while each.ticket.is_ready:
            if next(each.answer, None) is None:
                return each.answer.completion
            bar.add_tokens(1)
    except ShoalError as problem:
        return _failed(problem, each.answer.completion)
    return None


def _failed(problem: ShoalError, so_far: Completion) -> Completion:
    message = problem.message if problem.hint is None else f"{problem.message}; {problem.hint}"
    return Completion(
        so_far.text, so_far.token_ids, "error", so_far.prompt_ids, so_far.timings, so_far.logprobs, message
    )
