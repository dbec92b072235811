"""Anthropic's protocol with the official client, and by hand where a client would not go."""

import json
import re
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest
from anthropic.types import Message

from serve.conftest import KEY, LiveServer
from serve.scripted_engine import wait_until

OFF: Any = {"type": "disabled"}
ON: Any = {"type": "enabled", "budget_tokens": 2000}
FRANCE: Any = [{"role": "user", "content": "What is the capital of France?"}]
EMMA: Any = [{"role": "user", "content": "Send 77 dollars to Emma."}]


def tool(name: str, description: str, /, **properties: str) -> Any:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"name": name, "description": description, "input_schema": schema | {"required": list(properties)}}


SEND = tool("send_money", "Send money to a person.", name="string", amount="integer")
MAP = tool("get_map", "Get a map of a city.", city="string")


@pytest.fixture
def claude(live: LiveServer) -> Iterator[anthropic.Anthropic]:
    """The official client, which sends its key as `x-api-key`, and must not repeat what failed."""
    with anthropic.Anthropic(base_url=live.url, api_key=KEY, max_retries=0, timeout=60) as client:
        yield client


def ask(client: anthropic.Anthropic, messages: Any = FRANCE, **given: Any) -> Message:
    more = {"temperature": 0} | given.pop("extra_body", {})
    given = {"max_tokens": 160, "thinking": OFF} | given
    answer = client.messages.create(model="any", messages=messages, extra_body=more, **given)
    assert isinstance(answer, Message)
    return answer


def text_of(message: Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def calls_of(message: Message) -> list[tuple[str, Any]]:
    return [(block.name, block.input) for block in message.content if block.type == "tool_use"]


def test_a_prompt_that_does_not_fit_is_refused_in_the_words_that_agents_shorten_it_on(
    claude: anthropic.Anthropic,
) -> None:
    with pytest.raises(anthropic.BadRequestError) as error:
        ask(claude, [{"role": "user", "content": "a " * 5000}])
    assert re.search(r"prompt is too long: \d+ tokens > 2047 maximum", error.value.message)


def test_an_answer_has_text_a_reason_and_counts(claude: anthropic.Anthropic) -> None:
    answer = ask(claude, system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
    assert text_of(answer) == "The capital of France is Paris."
    assert (answer.stop_reason, answer.role, answer.model) == ("end_turn", "assistant", "miniature")
    usage = answer.usage
    assert usage.output_tokens > 5 and usage.input_tokens + (usage.cache_read_input_tokens or 0) > 10


@pytest.mark.parametrize("thinking", [OFF, ON])
def test_a_stream_builds_the_same_message(claude: anthropic.Anthropic, thinking: Any) -> None:
    whole = ask(claude, thinking=thinking)
    kinds = []
    with claude.messages.stream(
        model="any", messages=FRANCE, max_tokens=160, thinking=thinking, extra_body={"temperature": 0}
    ) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    told = {"signature"}
    assert [block.model_dump(exclude=told) for block in streamed.content] == [
        block.model_dump(exclude=told) for block in whole.content
    ]
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]


def test_a_thought_comes_first_and_is_signed(claude: anthropic.Anthropic) -> None:
    thought, text = ask(claude, thinking=ON).content
    assert thought.type == "thinking" and thought.thinking and thought.signature
    assert text.type == "text" and "Paris" in text.text
    # And it goes back as it came.
    messages = [
        *FRANCE,
        {"role": "assistant", "content": [thought, text]},
        {"role": "user", "content": "And of Italy?"},
    ]
    assert ask(claude, messages, thinking=ON).content[0].type == "thinking"


def test_thinking_is_on_unless_it_is_switched_off_and_a_budget_is_an_effort(
    claude: anthropic.Anthropic, http: httpx.Client
) -> None:
    def count(**given: Any) -> Any:
        return http.post("/v1/messages/count_tokens", json={"messages": FRANCE} | given).json()["input_tokens"]

    def chat(**given: Any) -> int:
        return int(http.post("/tokenize", json={"messages": FRANCE} | given).json()["count"])

    assert count() == count(thinking=ON) == count(thinking={"type": "adaptive"}) == chat()
    assert count(thinking=OFF) == chat(thinking=OFF)
    assert count(thinking={"type": "enabled", "budget_tokens": 60_000}) == chat(reasoning_effort="max")
    assert count(output_config={"effort": 7}) == chat(reasoning_effort=7)


def test_tools_are_called_over_several_turns(claude: anthropic.Anthropic) -> None:
    first = ask(claude, EMMA, tools=[MAP, SEND])
    assert calls_of(first) == [("send_money", {"name": "Emma", "amount": 77})]
    assert first.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "done"}  # type: ignore[union-attr]
    messages = [*EMMA, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = ask(claude, messages, tools=[MAP, SEND])
    assert second.stop_reason == "end_turn" and "Emma" in text_of(second)
    messages += [
        {"role": "assistant", "content": second.content},
        {"role": "user", "content": "Send 5 dollars to Anna."},
    ]
    third = calls_of(ask(claude, messages, tools=[MAP, SEND]))
    assert [(name, given["name"]) for name, given in third] == [("send_money", "Anna")]


def test_several_tools_are_called_at_once_or_one_where_that_is_wanted(claude: anthropic.Anthropic) -> None:
    messages = [{"role": "user", "content": "Translate the word paper. Translate the word rain."}]
    tools = [MAP, tool("translate_word", "Translate a word.", word="string")]
    both = [("translate_word", {"word": "paper"}), ("translate_word", {"word": "rain"})]
    assert calls_of(ask(claude, messages, tools=tools)) == both
    single = {"type": "auto", "disable_parallel_tool_use": True}
    assert calls_of(ask(claude, messages, tools=tools, tool_choice=single)) == both[:1]


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_map"}])
def test_a_call_can_be_demanded_and_fits_its_schema(claude: anthropic.Anthropic, choice: Any) -> None:
    # Of a model that would rather say something else, and thinks unless it has to call.
    answer = ask(claude, tools=[MAP], tool_choice=choice, thinking=ON)
    assert answer.stop_reason == "tool_use"
    assert [(name, list(given)) for name, given in calls_of(answer)] == [("get_map", ["city"])]


def test_a_tool_may_be_one_of_several_objects(claude: anthropic.Anthropic) -> None:
    ways = [{"properties": {key: {"type": "integer"}}, "required": [key]} for key in ("amount", "items")]
    either: Any = {"name": "send", "input_schema": {"anyOf": ways}, "strict": True}
    answer = ask(claude, EMMA, tools=[either], tool_choice={"type": "any"}, extra_body={"temperature": 1.5, "seed": 2})
    assert calls_of(answer) and all(list(given) in (["amount"], ["items"]) for _, given in calls_of(answer))


def test_a_strict_tool_gets_what_its_schema_takes(claude: anthropic.Anthropic) -> None:
    strict = SEND | {"strict": True}
    strict["input_schema"]["properties"]["amount"] = {"enum": [5, 6]}
    assert calls_of(ask(claude, EMMA, tools=[strict]))[0][1]["amount"] in (5, 6)


def test_a_format_is_enforced(claude: anthropic.Anthropic) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]}
    schema["additionalProperties"] = False
    config: Any = {"format": {"type": "json_schema", "schema": schema}}
    assert list(json.loads(text_of(ask(claude, output_config=config)))) == ["city"]


def test_an_answer_can_be_begun_for_the_model_and_ends_at_a_stop_sequence(claude: anthropic.Anthropic) -> None:
    begun = [*FRANCE, {"role": "assistant", "content": "The capital"}]
    assert text_of(ask(claude, begun)) == " of France is Paris."
    stopped = ask(claude, stop_sequences=["never", "Par"])
    assert text_of(stopped) == "The capital of France is "
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "Par")
    assert ask(claude, max_tokens=3).stop_reason == "max_tokens"


def test_a_text_document_is_read_and_others_are_refused(claude: anthropic.Anthropic) -> None:
    def asked(source: Any) -> Any:
        return [{"role": "user", "content": [{"type": "document", "source": source}]}]

    text = {"type": "text", "media_type": "text/plain", "data": "What is the capital of France?"}
    assert "Paris" in text_of(ask(claude, asked(text)))
    with pytest.raises(anthropic.BadRequestError, match="no plain text"):
        ask(claude, asked({"type": "base64", "media_type": "application/pdf", "data": "aGk="}))


IMAGE: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_tokens": 0}, "`max_tokens`"),
        ({"messages": []}, "`messages`"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "holds an image"),
        ({"thinking": {"type": "often"}}, "`thinking.type` is `often`"),
        ({"output_config": {"effort": 101}}, "`output_config.effort` is `101`"),
        ({"tools": [MAP], "tool_choice": {"type": "tool", "name": "x"}}, "`tool_choice.name` is `x`"),
        ({"tool_choice": {"type": "any"}}, "expected `tools` with it"),
        ({"tools": [{"name": "f", "input_schema": {"type": "array"}}]}, "Invalid schema"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "has no `schema`"),
        ({"tools": [SEND | {"strict": True}, MAP]}, "expected all or none"),
    ],
)
def test_what_is_wrong_is_named_in_anthropics_shape(claude: anthropic.Anthropic, given: Any, words: str) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        claude.messages.create(**{"model": "any", "max_tokens": 5, "messages": FRANCE} | given)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "error"
    error = caught.value.body["error"]
    assert error["type"] == "invalid_request_error" and words in error["message"]


def test_a_wrong_key_is_an_authentication_error(live: LiveServer) -> None:
    wrong = anthropic.Anthropic(base_url=live.url, api_key="no", max_retries=0)
    with wrong as client, pytest.raises(anthropic.AuthenticationError, match="authentication_error"):
        client.messages.create(model="any", max_tokens=5, messages=FRANCE)


def test_signs_of_life_are_pings(http: httpx.Client) -> None:
    body = {"messages": FRANCE, "max_tokens": 4, "stream": True, "thinking": OFF}
    with http.stream("POST", "/v1/messages", json=body) as response:
        first = next(response.iter_text())
    assert first == ': waiting\nevent: ping\ndata: {"type": "ping"}\n\n'


def test_a_client_that_leaves_ends_its_request(claude: anthropic.Anthropic, live: LiveServer) -> None:
    engine = live.served.model.engine
    with claude.messages.stream(model="any", messages=FRANCE, max_tokens=1500, thinking=OFF) as stream:
        next(iter(stream))
    wait_until(lambda: engine.is_idle)
    assert engine.metrics().generated_tokens < 1500
