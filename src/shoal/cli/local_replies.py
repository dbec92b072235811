"""Replies of the model that this process has loaded."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.cli.chat_reply import ChatMessage, Part, PromptProgress, ReplyFigures, Said
from shoal.cli.chat_settings import EFFORTS, ChatSettings

if TYPE_CHECKING:
    from shoal.api import Shoal
    from shoal.engine.request import Request
    from shoal.text.chat import ChatOptions


class LocalReplies:
    """One engine, asked again and again. The ids of its replies stand in later prompts, so that a prefix cache hits."""

    def __init__(self, model: "Shoal", name: str) -> None:
        from shoal.text.turns import Turns

        self.name = name
        self._model, self._turns = model, Turns()
        self._last: _Asked | None = None

    def reply(self, messages: Sequence[ChatMessage], settings: ChatSettings, seed: int) -> "LocalReply":
        """Begin one; it has run no step yet."""
        from shoal.engine.request import Request
        from shoal.engine.sampling_options import SamplingOptions
        from shoal.text.chat import render
        from shoal.text.rendering import encode

        self._remember_last()
        options = chat_options(settings)
        prompt = encode(self._model.tokenizer, render(messages, options), self._turns)
        sampling = SamplingOptions(
            max_new_tokens=settings.most_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            min_p=settings.min_p,
            repetition_penalty=settings.repetition_penalty,
            seed=seed,
        )
        live = LocalReply(self._model, Request(prompt.ids, sampling), options)
        self._last = _Asked(tuple(messages), options, live)
        return live

    def _remember_last(self) -> None:
        """By then it has ended, or was stopped: the same text may come again, and shall have the same ids."""
        from shoal.text.chat import render

        last, self._last = self._last, None
        message = None if last is None else last.live.said.message()
        if last is None or message is None:
            return
        span = render([*last.messages, message], last.options).last_turn()
        assert span is not None, message
        self._turns.remember(last.live.prompt_ids, span, last.live.token_ids)

    def close(self) -> None:
        """Close the model."""
        self._model.close()


@dataclass(frozen=True)
class _Asked:
    """What the last reply answered."""

    messages: tuple[ChatMessage, ...]
    options: "ChatOptions"
    live: "LocalReply"


def chat_options(settings: ChatSettings) -> "ChatOptions":
    """What the rendering needs of the settings; thinking is off where they leave it open."""
    from shoal.text.chat import ChatOptions

    effort = settings.effort
    named = EFFORTS[effort] if isinstance(effort, str) and effort in EFFORTS else effort
    return ChatOptions(thinking=settings.thinks, effort=named if settings.thinks else None)  # type: ignore[arg-type]


class LocalReply:
    """A request to the engine, whose steps its reader runs."""

    def __init__(self, model: "Shoal", request: "Request", options: "ChatOptions") -> None:
        from shoal.text.detokenize import StreamDetokenizer
        from shoal.text.reply_stream import ReplyStream

        self.said, self.figures = Said(), ReplyFigures(prompt_tokens=len(request.prompt_ids))
        self.token_ids: list[int] = []
        self.prompt_ids = request.prompt_ids
        self._started = time.perf_counter()
        self._ticket = model.assembled.engine.submit(request)
        self._characters = StreamDetokenizer(model.tokenizer)
        self._pieces = ReplyStream(thinking=options.thinking)

    def stop(self) -> bool:
        """Ends the request before its next step."""
        self._ticket.cancel()
        return True

    def __iter__(self) -> Iterator[Part]:
        """Parts as the engine's steps give them."""
        from shoal.engine.events import PromptEvent, TokenEvent

        for event in self._ticket:
            if isinstance(event, PromptEvent):
                yield PromptProgress(event.done, event.total, event.cached)
            elif isinstance(event, TokenEvent):
                yield from self._take(event.token_id, event.finish_reason)

    def _take(self, token_id: int | None, finish_reason: str | None) -> Iterator[Part]:
        figures, now = self.figures, time.perf_counter() - self._started
        figures.first_seconds = now if figures.first_seconds is None else figures.first_seconds
        figures.seconds, figures.finish_reason = now, finish_reason
        figures.cached_tokens = self._ticket.cached_tokens
        text = ""
        if token_id is not None:
            self.token_ids.append(token_id)
            text = self._characters.push(token_id)
        figures.reply_tokens = len(self.token_ids)
        pieces = [*self._pieces.push(text)]
        if finish_reason is not None:
            pieces += self._pieces.push(self._characters.flush())
            pieces += self._pieces.finish(ended=finish_reason == "stop")
        for piece in pieces:
            self.said.take(piece)
            yield piece
