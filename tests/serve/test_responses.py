"""The responses API with the official client."""

import json
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import Response

from serve.conftest import LiveServer
from serve.scripted_engine import wait_until
from shoal.serve.errors import ApiError
from shoal.serve.response_store import ResponseStore

FRANCE, EMMA = "What is the capital of France?", "Send 77 dollars to Emma."
SEND: Any = {
    "type": "function",
    "name": "send_money",
    "description": "Send money to a person.",
    "parameters": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "amount": {"type": "integer"}},
        "required": ["name", "amount"],
    },
    "strict": False,
}
OFF: Any = {"effort": "none"}


def ask(client: openai.OpenAI, said: Any = FRANCE, **given: Any) -> Response:
    given = {"temperature": 0, "max_output_tokens": 160, "reasoning": OFF} | given
    answer = client.responses.create(model="any", input=said, **given)
    assert isinstance(answer, Response)
    return answer


def calls_of(answer: Response) -> list[tuple[str, Any]]:
    return [(item.name, json.loads(item.arguments)) for item in answer.output if item.type == "function_call"]


def test_an_answer_has_items_a_status_and_counts(client: openai.OpenAI) -> None:
    answer = ask(client, instructions="Be brief.", metadata={"a": "b"})
    assert answer.output_text == "The capital of France is Paris."
    assert (answer.status, answer.model, answer.instructions) == ("completed", "miniature", "Be brief.")
    assert answer.metadata == {"a": "b"}
    usage = answer.usage
    assert usage is not None and usage.output_tokens == 9 and usage.input_tokens_details.cached_tokens >= 0
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    items = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": FRANCE}]},
    ]
    assert ask(client, items).output_text == answer.output_text


@pytest.mark.parametrize("effort", ["none", "low"])
def test_a_stream_tells_the_same_in_the_protocols_order(client: openai.OpenAI, effort: str) -> None:
    whole = ask(client, reasoning={"effort": effort})
    events: list[Any] = list(
        client.responses.create(
            model="any", input=FRANCE, temperature=0, max_output_tokens=160, reasoning={"effort": effort}, stream=True
        )
    )
    kinds = [event.type for event in events if not event.type.endswith(".delta")]
    part = ["response.output_item.added", "response.content_part.added"]
    end = ["response.content_part.done", "response.output_item.done"]
    thought = [*part, "response.reasoning_text.done", *end] if effort == "low" else []
    assert kinds == [
        "response.created",
        "response.in_progress",
        *thought,
        *part,
        "response.output_text.done",
        *end,
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.output_text == whole.output_text
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == whole.output_text
    assert events[-1].response.usage == whole.usage
    assert whole.usage is not None
    assert (whole.usage.output_tokens_details.reasoning_tokens > 5) is (effort == "low")


def test_a_conversation_goes_on_with_tools_by_items_or_by_the_id_of_a_response(client: openai.OpenAI) -> None:
    first = ask(client, EMMA, tools=[SEND])
    assert calls_of(first) == [("send_money", {"name": "Emma", "amount": 77})]
    call: Any = first.output[-1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
    by_id = ask(client, [result], tools=[SEND], previous_response_id=first.id)
    sent = [item.model_dump(exclude_none=True) for item in first.output]
    by_items = ask(client, [{"role": "user", "content": EMMA}, *sent, result], tools=[SEND], store=False)
    assert by_id.output_text == by_items.output_text and "Emma" in by_id.output_text
    assert by_id.previous_response_id == first.id and by_id.usage is not None and by_items.usage is not None
    assert by_id.usage.input_tokens == by_items.usage.input_tokens
    # And one turn more, on what went on.
    third = ask(client, "Send 5 dollars to Anna.", tools=[SEND], previous_response_id=by_id.id)
    assert [(name, given["name"]) for name, given in calls_of(third)] == [("send_money", "Anna")]


def test_a_response_is_kept_unless_it_shall_not(client: openai.OpenAI) -> None:
    kept, other = ask(client), ask(client, store=False)
    assert (kept.store, other.store) == (True, False)  # type: ignore[attr-defined]
    assert client.responses.retrieve(kept.id).output_text == kept.output_text
    client.responses.delete(kept.id)
    for answer in (kept, other):
        with pytest.raises(openai.NotFoundError, match="no response"):
            client.responses.retrieve(answer.id)
        with pytest.raises(openai.BadRequestError, match="there is no response"):
            ask(client, previous_response_id=answer.id)


def test_the_oldest_responses_make_room() -> None:
    store = ResponseStore(most_nbytes=400)
    for index in range(10):
        store.keep({"id": f"r{index}"}, ["x" * 80])
    assert store.get("r9").items == ["x" * 80]
    with pytest.raises(ApiError):
        store.get("r0")
    store.keep({"id": "large"}, ["x" * 500])
    with pytest.raises(ApiError):
        store.get("large")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "send_money"}])
def test_a_call_can_be_demanded(client: openai.OpenAI, choice: Any) -> None:
    answer = ask(client, FRANCE, tools=[SEND], tool_choice=choice, reasoning={"effort": "high"})
    name, given = calls_of(answer)[0]
    assert (name, sorted(given)) == ("send_money", ["amount", "name"])
    assert [item.type for item in answer.output] == ["function_call"] * len(answer.output)


def test_formats_are_enforced(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]}
    wanted: Any = {
        "type": "json_schema",
        "name": "c",
        "schema": schema | {"additionalProperties": False},
        "strict": True,
    }
    answer = ask(client, text={"format": wanted}, reasoning={"effort": "low"}, max_output_tokens=400)
    assert list(json.loads(answer.output_text)) == ["city"]
    pattern: Any = {"type": "regex", "regex": "[0-9]{3}-[a-z]{2}"}
    assert ask(client, text={"format": pattern}).output_text[3] == "-"


def test_a_text_ends_before_what_stops_it(client: openai.OpenAI) -> None:
    answer = ask(client, extra_body={"stop": [" Paris"]})
    assert (answer.output_text, answer.status) == ("The capital of France is", "completed")


def test_an_answer_that_was_cut_is_incomplete(client: openai.OpenAI) -> None:
    answer = ask(client, max_output_tokens=3)
    assert answer.status == "incomplete" and answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"


IMAGE: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}]}]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"input": []}, "must not be empty"),
        ({"input": IMAGE}, "holds an image"),
        ({"reasoning": {"effort": "often"}}, "`reasoning.effort` is `often`"),
        ({"tool_choice": "required"}, "expected `tools` with it"),
        ({"tools": [SEND], "tool_choice": {"type": "function", "name": "x"}}, "no function named 'x'"),
        ({"background": True}, "`background` is true"),
        ({"text": {"format": {"type": "poem"}}}, "`text.format.type` is `poem`"),
        ({"text": {"format": {"type": "grammar", "grammar": "start: ("}}}, "`text.format.grammar` cannot be enforced"),
    ],
)
def test_what_is_wrong_is_named(client: openai.OpenAI, given: Any, words: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**{"model": "any", "input": FRANCE} | given)
    assert isinstance(caught.value.body, dict)
    assert words in caught.value.body["message"]


def test_a_client_that_leaves_ends_its_request(http: httpx.Client, live: LiveServer) -> None:
    body = {"input": FRANCE, "max_output_tokens": 1500, "reasoning": OFF, "stream": True}
    with http.stream("POST", "/v1/responses", json=body) as response:
        next(response.iter_text())
    wait_until(lambda: live.served.model.engine.is_idle)


def entries(found: Any) -> list[tuple[str, float, int]]:
    return [(each.token, round(each.logprob, 6), len(each.top_logprobs)) for each in found]


@pytest.mark.parametrize("effort", ["none", "low"])
def test_the_probabilities_of_the_text_stand_in_every_event_that_holds_it(client: openai.OpenAI, effort: str) -> None:
    given: Any = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "reasoning": {"effort": effort}}
    whole = ask(client, **given)
    (text,) = [part for item in whole.output if item.type == "message" for part in item.content]
    assert text.type == "output_text" and text.logprobs is not None
    told = entries(text.logprobs)
    # Of the text alone, to the token: no thought, no marker, and all of it.
    assert "".join(token for token, _, _ in told) == text.text == "The capital of France is Paris."
    assert {count for _, _, count in told} == {2} and max(logprob for _, logprob, _ in told) <= 0
    events: list[Any] = list(
        client.responses.create(model="any", input=FRANCE, temperature=0, max_output_tokens=160, stream=True, **given)
    )
    by_kind: dict[str, list[Any]] = {}
    for event in events:
        by_kind.setdefault(event.type, []).append(event)
    pieces = by_kind["response.output_text.delta"]
    assert [each for piece in pieces for each in entries(piece.logprobs)] == told
    for piece in pieces:
        assert "".join(each.token for each in piece.logprobs) == piece.delta
    assert entries(by_kind["response.output_text.done"][0].logprobs) == told
    assert entries(by_kind["response.content_part.done"][-1].part.logprobs) == told
    assert entries(by_kind["response.output_item.done"][-1].item.content[0].logprobs) == told
    assert entries(events[-1].response.output[-1].content[0].logprobs) == told


@pytest.mark.parametrize(("given", "count"), [({}, None), ({"top_logprobs": 0}, None), ({"top_logprobs": 3}, 3)])
def test_probabilities_come_where_they_are_asked_for(client: openai.OpenAI, given: Any, count: int | None) -> None:
    message: Any = ask(client, **given).output[-1]
    assert {len(each.top_logprobs) for each in message.content[0].logprobs} == (set() if count is None else {count})


def test_what_may_be_included_is_checked(client: openai.OpenAI) -> None:
    kept: Any = ["reasoning.encrypted_content", "web_search_call.results"]
    assert ask(client, include=kept).output_text
    for given, words in (({"include": ["everything"]}, r"include\[0\]"), ({"top_logprobs": 21}, "top_logprobs")):
        with pytest.raises(openai.BadRequestError, match=words):
            ask(client, **given)


WAYS: Any = {
    "anyOf": [{"$ref": "#/$defs/person"}, {"$ref": "#/$defs/shop"}],
    "$defs": {
        kind: {"type": "object", "properties": {key: {"type": "integer"}}, "required": [key]}
        for kind, key in (("person", "amount"), ("shop", "items"))
    },
}


def test_a_strict_tool_is_held_to_the_schema_that_was_sent(client: openai.OpenAI) -> None:
    for tool in (SEND | {"parameters": WAYS, "strict": True}, SEND | {"parameters": WAYS, "strict": None}):
        answer = ask(client, EMMA, tools=[tool], tool_choice="required", temperature=1.5, extra_body={"seed": 3})
        for _, given in calls_of(answer):
            # One that is not strict may be given more than it names.
            assert any(isinstance(given.get(name), int) for name in ("amount", "items"))
            assert not tool["strict"] or list(given) in (["amount"], ["items"])
    inner = {"type": "object", "properties": {"to": {"$ref": "#/$defs/name"}}, "required": ["to"]}
    inner |= {"$defs": {"name": {"type": "string", "enum": ["x", "y"]}}, "additionalProperties": False}
    answer = ask(client, EMMA, tools=[SEND | {"parameters": inner, "strict": True}], tool_choice="required")
    assert {given["to"] for _, given in calls_of(answer)} <= {"x", "y"}
    with pytest.raises(openai.BadRequestError, match="expected all or none"):
        ask(client, EMMA, tools=[SEND | {"strict": True}, SEND | {"name": "other"}])
