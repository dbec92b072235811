"""Formats and strict tools of chat completions, with the official client."""

import json
from typing import Any

import jsonschema
import openai
import pytest
from openai.types.chat import ChatCompletion

from shoal.serve.errors import ApiError
from shoal.serve.structured import calls_shape, content_shape

PERSON: Any = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer"},
        "likes": {"enum": ["a", "b"]},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}
ASK: Any = [{"role": "user", "content": "Write json of a person."}]


def ask(client: openai.OpenAI, thinking: str = "disabled", **given: Any) -> ChatCompletion:
    more = {"thinking": {"type": thinking}} | given.pop("extra_body", {})
    given = {"messages": ASK, "max_tokens": 400, "seed": 1} | given
    answer = client.chat.completions.create(model="any", extra_body=more, **given)
    assert isinstance(answer, ChatCompletion)
    return answer


@pytest.mark.parametrize("thinking", ["disabled", "enabled"])
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_schema_is_kept_with_a_thought_before_it_or_without(
    client: openai.OpenAI, thinking: str, temperature: float
) -> None:
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    for choice in ask(client, thinking, response_format=wanted, temperature=temperature, n=3).choices:
        assert choice.finish_reason == "stop" or thinking == "enabled"
        if choice.finish_reason == "stop":
            assert choice.message.content is not None
            jsonschema.validate(json.loads(choice.message.content), PERSON)


def test_an_object_is_an_object_and_a_pattern_is_kept(client: openai.OpenAI) -> None:
    answer = ask(client, response_format={"type": "json_object"}, temperature=0)
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content or ""), dict)
    pattern: Any = {"response_format": {"type": "regex", "regex": "(yes|no), [0-9]{2}"}}
    content = ask(client, extra_body=pattern).choices[0].message.content or ""
    assert content.split(",")[0] in ("yes", "no") and content[-2:].isdigit()


def test_the_same_is_said_where_it_fits_anyway(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "What is the capital of France?"}]
    free = ask(client, temperature=0, messages=messages).choices[0].message.content or ""
    pattern: Any = {"response_format": {"type": "regex", "regex": r"(?s:.*)"}}
    assert ask(client, temperature=0, messages=messages, extra_body=pattern).choices[0].message.content == free


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"type": "poem"}, "`response_format.type` is `poem`"),
        ({"type": "json_schema"}, "`response_format` has no `schema`"),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "objekt"}, "strict": True}}, "objekt"),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": [1]}}, "is `list`, expected a JSON Schema"),
        ({"type": "regex", "regex": "("}, "`response_format.regex` cannot be enforced"),
    ],
)
def test_a_format_that_cannot_be_enforced_is_refused_by_name(client: openai.OpenAI, wanted: Any, words: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, extra_body={"response_format": wanted})
    assert isinstance(caught.value.body, dict)
    assert words in caught.value.body["message"] and caught.value.body["param"].startswith("response_format")


def test_what_is_not_strict_is_not_held_to_what_cannot_be(client: openai.OpenAI) -> None:
    schema = {"type": "array", "uniqueItems": True, "maxItems": 2, "items": {"enum": [1, 2, 3]}}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert isinstance(json.loads(ask(client, response_format=wanted).choices[0].message.content or ""), list)
    wanted["json_schema"]["strict"] = True
    with pytest.raises(openai.BadRequestError, match="uniqueItems"):
        ask(client, response_format=wanted)


def test_tools_are_enforced_where_one_has_to_come_or_they_are_strict() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    strict = [{"name": "f", "input_schema": {"type": "object"}, "strict": True}]
    assert calls_shape(tools, "auto") is None and calls_shape(strict, "none") is None
    required, auto = calls_shape(tools, "required"), calls_shape(strict, "auto")
    assert required is not None and required.is_required and required.is_opened and not required.tools[0].is_strict
    assert auto is not None and not auto.is_required and not auto.is_opened
    assert auto.tools[0].is_strict and auto.tools[0].is_closed and not required.tools[0].is_closed
    with pytest.raises(ApiError, match="expected all or none"):
        calls_shape([*tools, *strict], "auto")


def test_no_format_is_none() -> None:
    assert content_shape(None, "x") is None and content_shape({"type": "text"}, "x") is None


def test_a_strict_tool_may_be_one_of_several_objects(client: openai.OpenAI) -> None:
    ways = [
        {"type": "object", "properties": {"to": {"const": kind}, key: {"type": "integer"}}, "required": ["to", key]}
        for kind, key in (("person", "amount"), ("shop", "items"))
    ]
    schema: Any = {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": dict(zip("ab", ways, strict=True))}
    tool: Any = {"type": "function", "function": {"name": "send", "parameters": schema, "strict": True}}
    for seed in range(3):
        answer = ask(client, tools=[tool], tool_choice="required", temperature=1.5, seed=seed)
        for call in answer.choices[0].message.tool_calls or ():
            assert call.type == "function"
            if answer.choices[0].finish_reason == "tool_calls":
                jsonschema.validate(json.loads(call.function.arguments), schema)
    tool["function"]["parameters"] = {"type": "object", "not": {"required": ["x"]}}
    with pytest.raises(openai.BadRequestError, match="has `not` beside its properties") as caught:
        ask(client, tools=[tool])
    assert isinstance(caught.value.body, dict) and "leave out `strict`" in caught.value.body["message"]
