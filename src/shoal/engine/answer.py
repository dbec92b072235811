"""The events of one request as text, and what is known of it at any moment."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, Self

from shoal.engine.engine import FinishReason, TokenEvent
from shoal.text.detokenize import StreamDetokenizer
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
    """An answer. `text` is what `token_ids` decode to; the end-of-sequence id is in neither."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | Literal["interrupted"]
    prompt_ids: tuple[int, ...]
    timings: Timings

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types."""
        return asdict(self) | {"prompt_ids": list(self.prompt_ids), "token_ids": list(self.token_ids)}


class Answer:
    """An iterator over the text as it comes, one piece a token; a piece may be empty, never ends inside a character."""

    def __init__(self, events: Iterator[TokenEvent], tokenizer: Tokenizer, prompt_ids: tuple[int, ...]) -> None:
        self.prompt_ids = prompt_ids
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
        )

    def _read(self, events: Iterator[TokenEvent], detokenizer: StreamDetokenizer) -> Iterator[str]:
        for event in events:
            self._seconds.append(event.seconds)
            self._finish_reason = event.finish_reason
            piece = ""
            if event.token_id is not None:
                self._token_ids.append(event.token_id)
                piece = detokenizer.push(event.token_id)
            if event.finish_reason is not None:
                piece += detokenizer.flush()
            self._text.append(piece)
            yield piece
