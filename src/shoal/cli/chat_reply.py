"""What a reply is made of while it comes, and what gives one: the engine of this process, or a server."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shoal.cli.chat_settings import ChatSettings
from shoal.text.reply_stream import ReplyPiece

ChatMessage = dict[str, str]
"""`role`, `content`, and of an assistant that thought `reasoning_content`."""


@dataclass(frozen=True)
class PromptProgress:
    """`done` of the prompt's `total` tokens are read, of which `cached` were known."""

    done: int
    total: int
    cached: int


Part = PromptProgress | ReplyPiece


@dataclass
class ReplyFigures:
    """Counts and wall seconds of one reply. None: not known, or not yet."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reply_tokens: int | None = None
    first_seconds: float | None = None
    seconds: float | None = None
    finish_reason: str | None = None

    @property
    def tokens_per_second(self) -> float | None:
        """Of those behind the first."""
        if not self.reply_tokens or self.first_seconds is None or self.seconds is None:
            return None
        seconds = self.seconds - self.first_seconds
        return (self.reply_tokens - 1) / seconds if self.reply_tokens > 1 and seconds > 0 else None


@dataclass
class Said:
    """The text of a reply so far."""

    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)

    def take(self, piece: ReplyPiece) -> None:
        """One more piece."""
        (self.reasoning if piece.kind == "reasoning" else self.content).append(piece.text)

    def message(self) -> ChatMessage | None:
        """As a conversation keeps it; None when nothing was said."""
        content, reasoning = "".join(self.content), "".join(self.reasoning)
        if not content and not reasoning:
            return None
        return {"role": "assistant", "content": content} | ({"reasoning_content": reasoning} if reasoning else {})


class LiveReply(Protocol):
    """A reply that is being given."""

    said: Said
    figures: ReplyFigures

    def __iter__(self) -> Iterator[Part]:
        """Its parts, once; `said` and `figures` hold what they came to. Raises a `ShoalError` where it cannot go on."""
        ...

    def stop(self) -> bool:
        """End it early, from a signal's handler; False where only an exception can, for it waits for another."""
        ...


class Replies(Protocol):
    """Gives a reply to each conversation."""

    name: str

    def reply(self, messages: Sequence[ChatMessage], settings: ChatSettings, seed: int) -> LiveReply:
        """Begin one. Raises a `ShoalError` where these messages can have none."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...
