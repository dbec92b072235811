"""What became of one item: answered, scored token by token, or skipped. Never dropped."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from shoal.engine.events import FinishReason


@dataclass(frozen=True)
class Answered:
    """A question's reply, as text with all its markers, and which checks held.

    `finish_reason` is `decided` where the reply was left off because no further token could change a check.
    """

    suite: str
    group: str
    line: int
    prompt_tokens: int
    reply: str
    finish_reason: FinishReason | Literal["decided"]
    checks: Mapping[str, bool]

    @property
    def is_right(self) -> bool:
        """Whether all checks held."""
        return all(self.checks.values())

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types, failed checks by name."""
        return {
            **_place(self),
            "prompt_tokens": self.prompt_tokens,
            "reply": self.reply,
            "finish_reason": self.finish_reason,
            "right": self.is_right,
            "failed": [name for name, held in self.checks.items() if not held],
        }


@dataclass(frozen=True)
class Scored:
    """A passage: of each token after the begin token, the end token too, −ln of its probability."""

    suite: str
    group: str
    line: int
    nats: tuple[float, ...]

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types."""
        return {**_place(self), "tokens": len(self.nats), "nats": sum(self.nats)}


@dataclass(frozen=True)
class Skipped:
    """An item that this checkpoint cannot be asked, and why."""

    suite: str
    group: str
    line: int
    reason: str

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types."""
        return {**_place(self), "skipped": self.reason}


Outcome = Answered | Scored | Skipped


def _place(outcome: Outcome) -> dict[str, object]:
    return {"suite": outcome.suite, "group": outcome.group, "line": outcome.line}
