"""A turn of a conversation to the chunks of its protocol: the one way from a request to an answer."""

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import deepseek_recipe as recipe

from shoal.engine.constraint import ConstraintMaker
from shoal.engine.events import FinishReason, PromptEvent, TokenEvent
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.engine.ticket import Ticket
from shoal.errors import EngineStoppedError, PromptError, ShoalError
from shoal.serve.errors import as_api_error
from shoal.serve.served import Served
from shoal.text.detokenize import StreamDetokenizer
from shoal.text.rendering import PromptIds, Rendering, encode
from shoal.text.reply import Reply, read_reply
from shoal.text.reply_reader import ReplyReader

if TYPE_CHECKING:
    from shoal.text.reply_reader import Chunk, Generator


@dataclass(frozen=True)
class Turn:
    """What is asked: the conversation as it was rendered, how tokens are drawn, and how their text is read.

    `single_call` ends the reply behind its first tool call; `constraint` enforces what the reply has to be.
    """

    conversation: recipe.Conversation
    effort: int | None
    prompt: PromptIds
    sampling: SamplingOptions
    parsing: recipe.ParsingOptions
    single_call: bool = False
    constraint: ConstraintMaker | None = None

    def request(self, sampling: SamplingOptions | None = None) -> Request:
        """For the engine."""
        marks = (self.prompt.system_end,) if self.prompt.system_end else ()
        return Request(self.prompt.ids, sampling or self.sampling, marks, constraint=self.constraint)


@dataclass(frozen=True)
class Step:
    """Chunks of the protocol, maybe none, and the token that they came with; None where they came with no token."""

    chunks: "Sequence[Chunk]"
    token: TokenEvent | None = None


@dataclass
class Usage:
    """What an answer took, known when it has ended."""

    prompt: int
    cached: int = 0
    completion: int = 0
    finish_reason: FinishReason | None = None


Update: TypeAlias = PromptEvent | Step


def render(served: Served, conversation: recipe.Conversation, effort: int | None = None) -> PromptIds:
    """The prompt of `conversation`, in which answers that were given here stand as the model chose them.

    Raises `ApiError` where it holds what is no text.
    """
    try:
        return encode(served.model.tokenizer, Rendering.of(conversation, effort), served.turns)
    except PromptError as problem:
        raise as_api_error(problem) from None


@dataclass
class Answer:
    """One answer on its way; `usage` counts along."""

    served: Served
    turn: Turn
    ticket: Ticket
    reader: ReplyReader
    usage: Usage
    _ids: list[int] = field(default_factory=list)

    @classmethod
    def ask(
        cls,
        served: Served,
        turn: Turn,
        generator: "Generator",
        *,
        streams: bool,
        sampling: SamplingOptions | None = None,
    ) -> "Answer":
        """Queues the request. Raises `ApiError` at once, so before anything is sent, where it cannot be."""
        ticket = served.submit(turn.request(sampling))
        reader = ReplyReader(generator, turn.parsing, whole=not streams, single=turn.single_call)
        return cls(served, turn, ticket, reader, Usage(len(turn.prompt.ids)))

    async def updates(self) -> AsyncGenerator[Update, None]:
        """How far the prompt is, and the chunks, in order, as they come; the first of them as soon as the request runs.

        Closing it, in any way, ends the request. Raises `ApiError` when the engine cannot go on.
        """
        started, detokenizer = time.monotonic(), StreamDetokenizer(self.served.model.tokenizer)
        is_first = True
        try:
            async for event in self.ticket:
                if is_first:
                    is_first = False
                    self.usage.cached = event.cached if isinstance(event, PromptEvent) else self.ticket.cached_tokens
                    # Not held for the first token: some clients take only an event of the protocol for a sign of life.
                    yield Step(self.reader.start(self.usage.prompt, self.usage.cached))
                if isinstance(event, PromptEvent):
                    yield event
                    continue
                was_over = self.reader.is_over
                yield Step(self.reader.push(self._text(event, detokenizer), int(event.token_id is not None)), event)
                if self.reader.is_stopped or was_over:
                    break
                if event.finish_reason == "cancelled":
                    raise EngineStoppedError("the request was cut short: the server is shutting down")
            is_cut = self.usage.finish_reason not in (None, "stop") and not self.reader.is_over
            self._remember(is_cut)
            yield Step(self.reader.finish(is_cut=is_cut))
        except ShoalError as problem:
            raise as_api_error(problem) from None
        finally:
            self.served.release(self.ticket, time.monotonic() - started)

    def _text(self, event: TokenEvent, detokenizer: StreamDetokenizer) -> str:
        """What `event` adds to the answer; counted."""
        self.usage.finish_reason = event.finish_reason
        text = ""
        if event.token_id is not None:
            self.usage.completion += 1
            if not self.reader.is_over:
                self._ids.append(event.token_id)
            text = detokenizer.push(event.token_id)
        return text if event.finish_reason is None else text + detokenizer.flush()

    def _remember(self, is_cut: bool) -> None:
        """Lets the next turn find this one's ids; not of what a stop string, or a cut call, left incomplete."""
        messages, model = self.turn.conversation.messages, self.served.model
        if self.reader.is_stopped or not messages or messages[-1].prefix:
            return
        reply = read_reply(model.tokenizer.decode(self._ids), self.turn.parsing)
        if is_cut and reply.calls:
            return
        span = Rendering.of(_followed(self.turn.conversation, reply), self.turn.effort).last_turn()
        if span is not None:
            self.served.turns.remember(self.turn.prompt.ids, span, self._ids)


def _followed(conversation: recipe.Conversation, reply: Reply) -> recipe.Conversation:
    """`conversation` with the answer it got, as a client would send it back."""
    calls = [recipe.ToolCall(str(index), call.name, call.arguments) for index, call in enumerate(reply.calls)]
    message = recipe.AssistantMessage(reply.content, reply.reasoning, calls or None)
    return recipe.Conversation(
        [*conversation.messages, message],
        thinking_mode=conversation.thinking_mode,
        tools=conversation.tools,
        reasoning_effort=conversation.reasoning_effort,
    )
