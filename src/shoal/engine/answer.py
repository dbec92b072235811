"""The events of one request as text, and what is known of it at any moment."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Self

from shoal.engine.events import FinishReason, TokenEvent
from shoal.engine.logprobs import TokenLogprobs
from shoal.text.detokenize import StreamDetokenizer
from shoal.text.stop_strings import StopStrings
from shoal.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Timings:
    """Wall seconds of the prompt's forward (None: not ended), of the steps after it, and how many those were."""

    prefill_seconds: float | None
    decode_seconds: float
    decode_steps: int

    @property
    def seconds_per_step(self) -> float | None:
        """Of decode; None when the first step was the last."""
        return self.decode_seconds / self.decode_steps if self.decode_steps else None


@dataclass(frozen=True)
class Completion:
    """An answer. `text` is what `token_ids` decode to, up to a stop string; the end-of-sequence id is in neither.

    `logprobs` has one of each token, where the request asked for them. `error` says what ended the answer where its
    `finish_reason` is `error`.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | Literal["interrupted", "error"]
    prompt_ids: tuple[int, ...]
    timings: Timings
    logprobs: tuple[TokenLogprobs, ...] | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types."""
        content = asdict(self) | {"prompt_ids": list(self.prompt_ids), "token_ids": list(self.token_ids)}
        return {name: value for name, value in content.items() if value is not None or name not in _OPTIONAL}


_OPTIONAL = {"logprobs", "error"}


class Answer:
    """An iterator over the text as it comes, one piece a token; a piece may be empty, never ends inside a character."""

    def __init__(
        self,
        events: Iterator[TokenEvent],
        tokenizer: Tokenizer,
        prompt_ids: tuple[int, ...],
        stops: Sequence[str] = (),
    ) -> None:
        self.prompt_ids = prompt_ids
        self._stops = StopStrings(stops)
        self._logprobs: list[TokenLogprobs] = []
        self._pieces = self._read(events, StreamDetokenizer(tokenizer))
        self._text: list[str] = []
        self._token_ids: list[int] = []
        self._seconds: list[float] = []
        self._finish_reason: FinishReason | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    @property
    def completion(self) -> Completion:
        """The answer so far; its `finish_reason` is `interrupted` until the last piece was taken."""
        prefill, decode = next(iter(self._seconds), None), self._seconds[1:]
        return Completion(
            "".join(self._text),
            tuple(self._token_ids),
            self._finish_reason or "interrupted",
            self.prompt_ids,
            Timings(prefill, sum(decode), len(decode)),
            tuple(self._logprobs) or None,
        )

    def _read(self, events: Iterator[TokenEvent], detokenizer: StreamDetokenizer) -> Iterator[str]:
        for event in events:
            self._seconds.append(event.seconds)
            self._finish_reason = event.finish_reason
            piece = ""
            if event.token_id is not None:
                self._token_ids.append(event.token_id)
                piece = detokenizer.push(event.token_id)
            if event.logprobs is not None:
                self._logprobs.append(event.logprobs)
            if event.finish_reason is not None:
                piece += detokenizer.flush()
            piece = self._stops.push(piece)
            if self._stops.found is not None:
                self._finish_reason = "stop"
            elif event.finish_reason is not None:
                piece += self._stops.flush()
            self._text.append(piece)
            yield piece
            if self._stops.found is not None:
                return
