"""What is asked of a model: a question whose reply is checked, or a passage whose every token is predicted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from shoal.eval.check import Check
from shoal.text.chat import ChatOptions, Message

DEFAULT_NEW_TOKENS = 64


@dataclass(frozen=True)
class Conversation:
    """A prompt in messages; the reply is the assistant's."""

    messages: tuple[Message, ...]
    options: ChatOptions


@dataclass(frozen=True)
class Question:
    """A prompt, raw or a conversation, and the checks of its reply. `line` is its place in the suite's file."""

    line: int
    group: str
    prompt: str | Conversation
    checks: tuple[Check, ...]
    max_new_tokens: int = DEFAULT_NEW_TOKENS


@dataclass(frozen=True)
class Passage:
    """A text to measure perplexity on: the begin token comes before it, the end token after it."""

    line: int
    group: str
    text: str


Item = Question | Passage


@dataclass(frozen=True)
class Suite:
    """Items under one name."""

    name: str
    items: Sequence[Item]

    def sample(self, limit: int | None) -> Self:
        """At most `limit` of the items, spread evenly over them; the same ones always."""
        count = len(self.items)
        if limit is None or limit >= count:
            return self
        return replace(self, items=[self.items[index * count // limit] for index in range(limit)])
