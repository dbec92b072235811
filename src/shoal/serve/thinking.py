"""Whether a reply thinks first, and how hard: one answer to the many ways in which clients ask."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from shoal.serve.errors import ApiError
from shoal.text.chat import Effort

_SAME = {"minimal": "low", "medium": "high"}
_OFF = ("none", "off", "disabled")


@dataclass(frozen=True)
class Thinking:
    """`effort` is a name or 1 to 100; None is the model's default, high. Without thinking it says nothing."""

    is_on: bool = True
    effort: Effort | int | None = None


def read_thinking(
    effort: str | int | None,
    thinking: Mapping[str, Any] | bool | None,
    template: Mapping[str, Any] | None,
    *,
    field: str = "reasoning_effort",
) -> Thinking:
    """`reasoning_effort`, or what the endpoint calls that `field`, `thinking` and `chat_template_kwargs` of a request;
    on, where none of them says otherwise.

    `thinking` is `{"type": "enabled" | "disabled" | "adaptive"}` or true or false; of `chat_template_kwargs` count
    `thinking` and `enable_thinking`, true or false, and `reasoning_effort`. An effort of `none` switches it off.
    Raises `ApiError` where a value is none of these, or they contradict each other.
    """
    template = template or {}
    if effort is None:
        effort = template.get("reasoning_effort")
    level = _effort(effort, field)
    said = [each for each in (_switch(thinking), *_switches(template)) if each is not None]
    if len(set(said)) > 1:
        raise ApiError(400, "`thinking` is both on and off, expected one of them", param="thinking")
    is_on = said[0] if said else True
    if level == "off":
        if said and is_on:
            message = f"`{field}` is `none` while `thinking` is on, expected one of them"
            raise ApiError(400, message, param=field)
        return Thinking(is_on=False)
    return Thinking(is_on, None if level is None else level)


def _switches(template: Mapping[str, Any]) -> list[bool | None]:
    found = []
    for name in ("thinking", "enable_thinking"):
        value = template.get(name)
        if value is not None and not isinstance(value, bool):
            where = f"chat_template_kwargs.{name}"
            raise ApiError(400, f"`{where}` is `{value!r}`, expected true or false"[:300], param=where)
        found.append(value)
    return found


def _switch(thinking: Mapping[str, Any] | bool | None) -> bool | None:
    if thinking is None or isinstance(thinking, bool):
        return thinking
    kind = thinking.get("type")
    if kind in ("enabled", "adaptive"):
        return True
    if kind == "disabled":
        return False
    wanted = "`enabled`, `disabled` or `adaptive`"
    raise ApiError(400, f"`thinking.type` is `{kind}`, expected {wanted}"[:300], param="thinking.type")


def _effort(effort: Any, field: str) -> Any:
    """A level that the renderer knows, `off`, or None."""
    if effort is None:
        return None
    name = str(effort).strip().lower()
    number = int(name) if name.isascii() and name.isdigit() and len(name) < 4 else None
    if number is not None and not isinstance(effort, bool) and 1 <= number <= 100:
        return number
    name = _SAME.get(name, name)
    if name in get_args(Effort):
        return name
    if name in _OFF:
        return "off"
    names = ", ".join(f"`{each}`" for each in ("none", "minimal", "low", "medium", "high", "xhigh", "max"))
    message = f"`{field}` is `{effort}`"[:200] + f", expected {names} or a number from 1 to 100"
    raise ApiError(400, message, param=field, code="invalid_value")
