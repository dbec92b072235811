"""Lines to items, and the sentence for every way a line can be wrong."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import EvalError
from shoal.eval.check import BeginsWith, Calls, Ends, Equals, Validates, WantedCall
from shoal.eval.item import Conversation, Item, Passage, Question
from shoal.eval.item_line import read_item
from shoal.text.chat import ChatOptions

MakeItem = Callable[..., Item]
USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
RIGHT = {"prompt": "a", "expect": {"answer": "b"}}


def test_a_prompt(item: MakeItem) -> None:
    assert item(**RIGHT) == Question(1, "g", "a", (BeginsWith("b"),), 64)


def test_a_passage(item: MakeItem) -> None:
    assert item(text=" a\n") == Passage(1, "g", " a\n")


def test_a_conversation_with_everything(item: MakeItem) -> None:
    call = {"name": "f", "arguments": {"x": [1]}}
    schema = {"type": "object"}
    expect = {"answer": "a", "equals": "a", "calls": [call], "schema": schema, "ends": True}
    options = {"thinking": True, "effort": "max", "tools": [TOOL], "response_schema": schema}
    found = item(messages=[USER], **options, max_new_tokens=3, expect=expect)
    checks = BeginsWith("a"), Equals("a"), Calls((WantedCall("f", {"x": [1]}),)), Validates(schema), Ends()
    chat = ChatOptions(thinking=True, effort="max", tools=[TOOL], response_schema=schema)
    assert found == Question(1, "g", Conversation((USER,), chat), checks, 3)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "has none, expected one of `prompt`, `messages` and `text`"),
        ({"prompt": "a", "text": "a"}, "has `prompt` and `text`, expected one of"),
        ({**RIGHT, "group": 3}, "`group` is 3, expected a string"),
        ({**RIGHT, "group": " "}, '`group` is " ", expected text'),
        ({**RIGHT, "group": "\x1b[2J"}, '`group` is "\\u001b[2J", expected a word of at most 40 printable characters'),
        ({**RIGHT, "prompt": None}, "`prompt` is null, expected a string"),
        ({**RIGHT, "prompt": ""}, '`prompt` is "", expected text'),
        ({**RIGHT, "temperature": 1}, "unknown field `temperature`, expected `group`, `prompt`, `max_new_tokens`"),
        ({**RIGHT, "tools": []}, "unknown field `tools`"),
        ({**RIGHT, "max_new_tokens": 0}, "`max_new_tokens` is 0, expected 1 to 65,536"),
        ({**RIGHT, "max_new_tokens": True}, "`max_new_tokens` is true, expected a whole number"),
        ({**RIGHT, "max_new_tokens": 1.0}, "`max_new_tokens` is 1.0, expected a whole number"),
        ({"prompt": "a"}, "`expect` is missing, expected an object"),
        ({"prompt": "a", "expect": {}}, "`expect` has no check, expected some of `answer`, `equals`"),
        ({"prompt": "a", "expect": {"like": "a"}}, "unknown field `expect.like`, expected some of"),
        ({"prompt": "a", "expect": {"answer": 3}}, "`expect.answer` is 3, expected a string"),
        ({"prompt": "a", "expect": {"answer": " a"}}, "text that begins with no white space"),
        ({"prompt": "a", "expect": {"ends": False}}, "`expect.ends` is false, expected true"),
        ({"prompt": "a", "expect": {"schema": True}}, "`expect.schema` is true, expected an object"),
        ({"prompt": "a", "expect": {"schema": {"type": 1}}}, "the schema in `expect.schema` is not valid: `type`"),
        ({"prompt": "a", "expect": {"calls": []}}, "`expect.calls` needs `tools`, found none"),
        ({"text": "a", "expect": {"ends": True}}, "unknown field `expect`, expected `group` and `text`"),
        ({"messages": []}, "`messages` is [], expected a conversation whose last message is of role"),
        ({"messages": ["Hi"]}, '`messages[0]` is "Hi", expected an object'),
        ({"messages": [{"role": "assistant", "content": "a"}]}, '`messages` is "assistant", expected a conversation'),
        ({"messages": [{"role": "bot"}, USER]}, "`messages[0].role` is `bot`"),
        ({"messages": [{"role": "user", "content": 3}]}, "`messages[0].content` is `int`"),
        ({"messages": [USER], "thinking": 1}, "`thinking` is 1, expected true or false"),
        ({"messages": [USER], "effort": "huge"}, '`effort` is "huge", expected one of low, high, xhigh, max'),
        ({"messages": [USER], "tools": [{}]}, "`tools[0]` has no `name`"),
        ({"messages": [USER], "tools": {}}, "`tools` is {}, expected a list"),
        (
            {"messages": [USER], "tools": [TOOL], "expect": {"calls": [{"name": "f"}]}},
            "`expect.calls[0].arguments` is missing, expected an object",
        ),
        (
            {"messages": [USER], "tools": [TOOL], "expect": {"calls": [{"name": "f", "arguments": {}, "id": 1}]}},
            "unknown field `expect.calls[0].id`",
        ),
        ({**RIGHT, "prompt": "\ud800"}, "has half a surrogate pair in a string, expected Unicode text"),
    ],
)
def test_a_wrong_line_names_place_field_found_and_wanted(item: MakeItem, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(EvalError) as error:
        item(**fields)
    assert error.value.message.startswith("`items.jsonl:1`")
    assert says in error.value.message


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"\xff", b'{"group": "a", "group": "b"}', b'{"a": ' + b"[" * 1000, b'{"a": ' + b"9" * 5000],
)
def test_a_line_that_is_no_json_object_is_refused(line: bytes) -> None:
    with pytest.raises(EvalError, match=r"^`items.jsonl:1`"):
        read_item(line, "items.jsonl:1", 1)


KEYS = ["group", "prompt", "messages", "text", "expect", "max_new_tokens", "tools", "thinking", "effort", "role"]
KEYS += ["answer", "calls", "schema", "ends", "name", "arguments", "content", "function", "response_schema", "type"]
SCALARS = st.sampled_from(
    [None, True, 0, -1, 10**30, 1.5, float("inf"), "", "a", "user", "tool", "low", "\ud800", "object"]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_only_an_eval_error_gets_out(members: dict[str, object]) -> None:
    for more in ({}, {"group": "g"}, {"group": "g", "messages": [USER], "expect": {"ends": True}}):
        try:
            read_item(json.dumps({**members, **more}).encode(), "items.jsonl:1", 1)
        except EvalError as error:
            assert error.message.startswith("`items.jsonl:1`")
