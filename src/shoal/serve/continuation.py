"""Raw text on its way: the tokens of one request as text, up to a stop string."""

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shoal.engine.events import PromptEvent, TokenEvent
from shoal.engine.ticket import Ticket
from shoal.errors import EngineStoppedError, ShoalError
from shoal.serve.errors import as_api_error
from shoal.serve.served import Served
from shoal.serve.stream import Usage
from shoal.text.detokenize import StreamDetokenizer
from shoal.text.stop_strings import StopStrings

TokenLine = tuple[int, float, Sequence[tuple[int, float]]]
"""An id, its logprob, and the likeliest ids with theirs."""


@dataclass(frozen=True)
class Piece:
    """Some text, never empty but for the last, and the tokens, with what the model thought of them, that it came by."""

    text: str
    finish_reason: Literal["stop", "length"] | None = None
    tokens: Sequence[TokenLine] = ()


@dataclass
class Continuation:
    """One answer; `usage` counts along."""

    served: Served
    ticket: Ticket
    stops: Sequence[str]
    usage: Usage = field(init=False)

    def __post_init__(self) -> None:
        self.usage = Usage(len(self.ticket.request.prompt_ids))

    async def pieces(self) -> AsyncGenerator[PromptEvent | Piece, None]:
        """How far the prompt is, then the text. Closing it ends the request. Raises `ApiError`."""
        started, stops = time.monotonic(), StopStrings(self.stops)
        detokenizer = StreamDetokenizer(self.served.model.tokenizer)
        tokens: list[TokenLine] = []
        try:
            async for event in self.ticket:
                if isinstance(event, PromptEvent):
                    self.usage.cached = event.cached
                    yield event
                    continue
                if event.finish_reason == "cancelled":
                    raise EngineStoppedError("the request was cut short: the server is shutting down")
                text = stops.push(self._text(event, detokenizer, tokens))
                reason = self._reason(event, stops)
                if reason is not None and stops.found is None:
                    text += stops.flush()
                if text or reason is not None:
                    yield Piece(text, reason, tuple(tokens))
                    tokens.clear()
                if stops.found is not None:
                    break
        except ShoalError as problem:
            raise as_api_error(problem) from None
        finally:
            self.served.release(self.ticket, time.monotonic() - started)

    def _text(self, event: TokenEvent, detokenizer: StreamDetokenizer, tokens: list[TokenLine]) -> str:
        self.usage.cached, self.usage.finish_reason = self.ticket.cached_tokens, event.finish_reason
        text = ""
        if event.token_id is not None:
            self.usage.completion += 1
            text = detokenizer.push(event.token_id)
            if event.logprobs is not None:
                tokens.append((event.token_id, event.logprobs.logprob, event.logprobs.top))
        return text if event.finish_reason is None else text + detokenizer.flush()

    def _reason(self, event: TokenEvent, stops: StopStrings) -> Literal["stop", "length"] | None:
        if stops.found is not None or event.finish_reason == "stop":
            return "stop"
        return None if event.finish_reason is None else "length"
