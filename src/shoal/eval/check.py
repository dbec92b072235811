"""What a reply must be. An item has one or more checks, and is right when all hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from shoal.eval.json_value import parse_json, same_json
from shoal.eval.schema import validates
from shoal.text.reply import Reply


class Check(Protocol):
    """One thing that must be so."""

    name: ClassVar[str]

    def holds(self, reply: Reply, ended: bool) -> bool:
        """Whether it is so of `reply`; `ended` says that the model ended it, not the limit of tokens."""
        ...


@dataclass(frozen=True)
class BeginsWith:
    """The content, after white space, begins with `text`, and the word or number ends there."""

    name: ClassVar[str] = "answer"
    text: str

    def holds(self, reply: Reply, ended: bool) -> bool:
        content = reply.content.lstrip()
        return content.startswith(self.text) and not content[len(self.text) :][:1].isalnum()

    def is_settled(self, content: str) -> bool:
        """Whether no continuation of `content` can change whether it holds."""
        content = content.lstrip()
        return len(content) > len(self.text) or not self.text.startswith(content)


@dataclass(frozen=True)
class Equals:
    """The content is `text`, but for white space around either."""

    name: ClassVar[str] = "equals"
    text: str

    def holds(self, reply: Reply, ended: bool) -> bool:
        return reply.content.strip() == self.text.strip()


@dataclass(frozen=True)
class WantedCall:
    """A tool call: its name and its arguments, compared as JSON values."""

    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class Calls:
    """The calls are exactly these, in order."""

    name: ClassVar[str] = "calls"
    wanted: tuple[WantedCall, ...]

    def holds(self, reply: Reply, ended: bool) -> bool:
        if [call.name for call in reply.calls] != [call.name for call in self.wanted]:
            return False
        try:
            found = [parse_json(call.arguments) for call in reply.calls]
        except ValueError:
            return False
        return all(same_json(value, call.arguments) for value, call in zip(found, self.wanted, strict=True))


@dataclass(frozen=True)
class Validates:
    """The content is JSON and what `schema` asks for."""

    name: ClassVar[str] = "schema"
    schema: Mapping[str, object]

    def holds(self, reply: Reply, ended: bool) -> bool:
        try:
            return validates(parse_json(reply.content), self.schema)
        except ValueError:
            return False


@dataclass(frozen=True)
class Ends:
    """The end token came within the item's tokens."""

    name: ClassVar[str] = "ends"

    def holds(self, reply: Reply, ended: bool) -> bool:
        return ended
