"""A line of a suite's file to an item. Every lie of the line is an error before a model is asked."""

import json
from collections.abc import Callable
from typing import get_args

from shoal.checkpoint.json_object import parse_json_object, quoted
from shoal.errors import EvalError, PromptError
from shoal.eval.check import BeginsWith, Calls, Check, Ends, Equals, Validates, WantedCall
from shoal.eval.fields import Fields
from shoal.eval.item import DEFAULT_NEW_TOKENS, Conversation, Item, Passage, Question
from shoal.eval.schema import schema_problem
from shoal.text.chat import ChatOptions, Effort, render_text

MOST_NEW_TOKENS = 65_536
MOST_GROUP_CHARACTERS = 40
KINDS = ("prompt", "messages", "text")
EFFORTS: tuple[Effort, ...] = get_args(Effort)
# An assistant begins after these.
_LAST_ROLES = ("user", "tool")


def read_item(content: bytes, where: str, line: int) -> Item:
    """The item in `content`, line `line` of a file; `where` names both in errors. Raises `EvalError`."""
    members = parse_json_object(content, where, EvalError)
    _check_unicode(members, where)
    fields = Fields(members, where)
    group = _group(fields)
    given = [kind for kind in KINDS if kind in fields]
    if len(given) != 1:
        found = "none" if not given else " and ".join(f"`{kind}`" for kind in given)
        raise EvalError(f"{quoted(where)} has {found}, expected one of `prompt`, `messages` and `text`")
    if given == ["text"]:
        item: Item = Passage(line, group, fields.required("text", str))
        fields.refuse_rest("`group` and `text`")
        return item
    prompt = fields.required("prompt", str) if given == ["prompt"] else _conversation(fields)
    max_new_tokens = _max_new_tokens(fields)
    has_tools = isinstance(prompt, Conversation) and bool(prompt.options.tools)
    item = Question(line, group, prompt, _checks(fields.inner("expect"), has_tools), max_new_tokens)
    more = ", `tools`, `thinking`, `effort`, `response_schema`" if given == ["messages"] else ""
    fields.refuse_rest(f"`group`, `{given[0]}`, `max_new_tokens`, `expect`{more}")
    return item


def _check_unicode(members: dict[str, object], where: str) -> None:
    try:
        json.dumps(members, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise EvalError(f"{quoted(where)} has half a surrogate pair in a string, expected Unicode text") from None


def _group(fields: Fields) -> str:
    group = fields.required("group", str)
    if not group.isprintable() or len(group) > MOST_GROUP_CHARACTERS:
        raise fields.error("group", group, f"a word of at most {MOST_GROUP_CHARACTERS} printable characters")
    return group


def _max_new_tokens(fields: Fields) -> int:
    count = fields.optional("max_new_tokens", int)
    if count is None:
        return DEFAULT_NEW_TOKENS
    if not 1 <= count <= MOST_NEW_TOKENS:
        raise fields.error("max_new_tokens", count, f"1 to {MOST_NEW_TOKENS:,}")
    return count


def _conversation(fields: Fields) -> Conversation:
    messages = tuple(message.rest() for message in fields.objects("messages") or ())
    if not messages or messages[-1].get("role") not in _LAST_ROLES:
        found = messages[-1].get("role") if messages else []
        raise fields.error("messages", found, "a conversation whose last message is of role `user` or `tool`")
    options = ChatOptions(
        thinking=bool(fields.optional("thinking", bool)),
        effort=_effort(fields),
        tools=[tool.rest() for tool in fields.objects("tools") or ()],
        response_schema=fields.optional("response_schema", dict),
    )
    try:
        # What cannot be rendered must not wait for its turn.
        render_text(messages, options)
    except PromptError as error:
        raise EvalError(f"{quoted(fields.where)}: {error.message}") from None
    return Conversation(messages, options)


def _effort(fields: Fields) -> Effort | None:
    given = fields.optional("effort", str)
    for effort in EFFORTS:
        if given == effort:
            return effort
    if given is not None:
        raise fields.error("effort", given, f"one of {', '.join(EFFORTS)}")
    return None


def _checks(fields: Fields, has_tools: bool) -> tuple[Check, ...]:
    found = tuple(read(fields, has_tools) for name, read in _CHECKS.items() if name in fields)
    names = ", ".join(f"`{name}`" for name in _CHECKS)
    fields.refuse_rest(f"some of {names}")
    if not found:
        raise EvalError(f"{quoted(fields.where)}: `expect` has no check, expected some of {names}")
    return found


def _answer(fields: Fields, _has_tools: bool) -> Check:
    text = fields.required("answer", str)
    if text != text.lstrip():
        raise fields.error("answer", text, "text that begins with no white space, for the reply's is dropped")
    return BeginsWith(text)


def _equals(fields: Fields, _has_tools: bool) -> Check:
    return Equals(fields.required("equals", str))


def _calls(fields: Fields, has_tools: bool) -> Check:
    wanted = []
    for call in fields.objects("calls") or ():
        wanted.append(WantedCall(call.required("name", str), call.required("arguments", dict)))
        call.refuse_rest("`name` and `arguments`")
    if not has_tools:
        raise EvalError(f"{quoted(fields.where)}: `expect.calls` needs `tools`, found none: no reply would have a call")
    return Calls(tuple(wanted))


def _schema(fields: Fields, _has_tools: bool) -> Check:
    schema = fields.required("schema", dict)
    problem = schema_problem(schema)
    if problem is not None:
        raise EvalError(f"{quoted(fields.where)}: the schema in `expect.schema` is not valid: {problem}")
    return Validates(schema)


def _ends(fields: Fields, _has_tools: bool) -> Check:
    if not fields.required("ends", bool):
        raise fields.error("ends", False, "true, or no such field")
    return Ends()


_CHECKS: dict[str, Callable[[Fields, bool], Check]] = {
    "answer": _answer,
    "equals": _equals,
    "calls": _calls,
    "schema": _schema,
    "ends": _ends,
}
