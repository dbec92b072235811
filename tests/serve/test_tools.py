"""Tools with the official client: calls, several at once, several turns, and what may be chosen."""

import json
from typing import Any

import httpx
import openai
from openai.types.chat import ChatCompletion, ChatCompletionMessage

OFF: Any = {"thinking": {"type": "disabled"}}


def tool(function: str, description: str, /, **parameters: str) -> Any:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": function, "description": description, "parameters": schema}}


SEND = tool("send_money", "Send money to a person.", name="string", amount="integer")
MAP = tool("get_map", "Get a map of a city.", city="string")
ASK: Any = [{"role": "user", "content": "Send 77 dollars to Emma."}]


def ask(client: openai.OpenAI, messages: Any = ASK, **given: Any) -> ChatCompletion:
    given = {"extra_body": OFF, "temperature": 0, "max_tokens": 160, "tools": [MAP, SEND]} | given
    answer = client.chat.completions.create(model="any", messages=messages, **given)
    assert isinstance(answer, ChatCompletion)
    return answer


def calls_of(message: ChatCompletionMessage) -> list[tuple[str, Any]]:
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()]  # type: ignore[union-attr]


def test_a_tool_is_called(client: openai.OpenAI) -> None:
    choice = ask(client).choices[0]
    assert calls_of(choice.message) == [("send_money", {"name": "Emma", "amount": 77})]
    assert choice.finish_reason == "tool_calls"
    assert "｜DSML｜" not in (choice.message.content or "")


def test_a_stream_builds_the_same_call(client: openai.OpenAI) -> None:
    name, call_id, arguments, reason = "", "", "", None
    for chunk in client.chat.completions.create(
        model="any", messages=ASK, temperature=0, stream=True, extra_body=OFF, tools=[MAP, SEND]
    ):
        assert "｜DSML｜" not in chunk.model_dump_json()
        for call in chunk.choices[0].delta.tool_calls or ():
            assert call.index == 0 and call.function is not None
            call_id, name = call_id or call.id or "", name or call.function.name or ""
            arguments += call.function.arguments or ""
        reason = chunk.choices[0].finish_reason or reason
    assert (name, json.loads(arguments), reason) == ("send_money", {"name": "Emma", "amount": 77}, "tool_calls")
    assert call_id


def test_a_call_can_be_demanded(client: openai.OpenAI, http: httpx.Client) -> None:
    # Thinking is on by default, and makes way: the reply begins inside of the call.
    named: Any = {"type": "function", "function": {"name": "send_money"}}
    found = ask(client, tool_choice=named, extra_body=None).choices[0]
    assert calls_of(found.message)[0][0] == "send_money"
    assert found.finish_reason == "tool_calls"
    assert "reasoning_content" not in found.message.model_dump()
    body = {"messages": ASK, "tools": [SEND]}
    demanded = http.post("/tokenize", json=body | {"tool_choice": "required"}).json()
    assert demanded == http.post("/tokenize", json=body | {"tool_choice": named}).json()


def test_tools_can_be_forbidden(client: openai.OpenAI, http: httpx.Client) -> None:
    assert ask(client, tool_choice="none", max_tokens=24).choices[0].message.tool_calls is None
    without = http.post("/tokenize", json={"messages": ASK}).json()
    forbidden = http.post("/tokenize", json={"messages": ASK, "tools": [SEND], "tool_choice": "none"}).json()
    assert forbidden == without


def echoed(message: ChatCompletionMessage, *, spaces: bool = True) -> dict[str, Any]:
    """As a client sends it back; it may have read the arguments and written them anew."""
    sent = message.model_dump(exclude_none=True)
    for call in sent.get("tool_calls", ()):
        arguments = json.loads(call["function"]["arguments"])
        separators = None if spaces else (",", ":")
        call["function"]["arguments"] = json.dumps(arguments, separators=separators)
    return sent


def test_what_is_sent_back_gives_the_ids_that_were_generated_over_three_turns(
    client: openai.OpenAI, http: httpx.Client
) -> None:
    messages: list[Any] = list(ASK)
    for turn in range(3):
        before = http.post("/tokenize", json={"messages": messages, "tools": [SEND]} | OFF).json()["tokens"]
        answer = ask(client, messages=messages, tools=[SEND])
        assert answer.usage is not None and answer.usage.prompt_tokens == len(before)
        messages.append(echoed(answer.choices[0].message, spaces=False))
        calls = answer.choices[0].message.tool_calls or ()
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "done"} for call in calls]
        if not calls:
            messages.append({"role": "user", "content": f"Send {turn + 2} dollars to Anna."})
        after = http.post("/tokenize", json={"messages": messages, "tools": [SEND]} | OFF).json()["tokens"]
        # All of the prompt, all that was generated, and the end of the turn.
        assert after[: len(before)] == before
        assert after[len(before) + answer.usage.completion_tokens] == 1
    assert [message["role"] for message in messages[:4]] == ["user", "assistant", "tool", "assistant"]


def test_several_tools_are_called_at_once(client: openai.OpenAI) -> None:
    messages = [{"role": "user", "content": "Translate the word paper. Translate the word rain."}]
    tools = [MAP, tool("translate_word", "Translate a word.", word="string")]
    found = ask(client, messages=messages, tools=tools).choices[0]
    assert calls_of(found.message) == [("translate_word", {"word": "paper"}), ("translate_word", {"word": "rain"})]
    assert len({call.id for call in found.message.tool_calls or ()}) == 2
    assert found.finish_reason == "tool_calls"
