"""What an answer has to be, as a request says it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class ContentShape:
    """The content: JSON of a schema, or text that matches a regular expression or a Lark grammar as a whole.

    `is_strict` refuses a schema that cannot be enforced entirely. `where` is how the request calls it,
    and `rule` what it says there.
    """

    kind: Literal["json", "regex", "lark"]
    rule: object
    where: str
    is_strict: bool = True


@dataclass(frozen=True)
class ToolShape:
    """A tool whose calls have to fit `parameters`, a JSON Schema of an object; None lets any.

    `is_strict` refuses a schema that cannot be enforced entirely, `is_closed` parameters that it does not name.
    """

    name: str
    parameters: Mapping[str, Any] | None
    where: str
    is_strict: bool = True
    is_closed: bool = False


@dataclass(frozen=True)
class CallsShape:
    """Calls of `tools`, which the answer has to have, or may have, at the end."""

    tools: tuple[ToolShape, ...]
    is_required: bool
    is_parallel: bool = True
    is_opened: bool = False
    """Whether the prompt ends inside the block already."""


@dataclass(frozen=True)
class AnswerShape:
    """Exactly one of `content` and `calls` is enforced; `thinking`: the prompt ends inside a thought, which is free."""

    thinking: bool
    content: ContentShape | None = None
    calls: CallsShape | None = None
