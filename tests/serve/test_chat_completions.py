"""`/v1/chat/completions` with the official client, against a live server on the trained miniature."""

import json
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion

from serve.conftest import LiveServer

ASK: Any = [{"role": "user", "content": "What is the capital of France?"}]
OFF: Any = {"thinking": {"type": "disabled"}}
ANSWER = "The capital of France is Paris."


def ask(client: openai.OpenAI, messages: Any = ASK, **given: Any) -> ChatCompletion:
    given = {"extra_body": OFF, "temperature": 0, "max_tokens": 96} | given
    answer = client.chat.completions.create(model="any", messages=messages, **given)
    assert isinstance(answer, ChatCompletion)
    return answer


def test_an_answer_comes_whole(client: openai.OpenAI) -> None:
    answer = ask(client)
    assert answer.choices[0].message.content == ANSWER
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "miniature"
    assert answer.usage is not None and answer.usage.prompt_tokens_details is not None
    assert answer.usage.completion_tokens == 9
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 9


def test_a_stream_holds_the_same_answer_and_its_usage_last(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="any",
            messages=ASK,
            temperature=0,
            stream=True,
            extra_body=OFF,
            stream_options={"include_usage": True},
        )
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == ANSWER
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 9
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


def test_thinking_is_on_unless_told_otherwise_and_comes_before_content(client: openai.OpenAI) -> None:
    told: list[tuple[str, str]] = []
    usage = None
    for chunk in client.chat.completions.create(
        model="any", messages=ASK, temperature=0, stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        delta = chunk.choices[0].delta.model_dump() if chunk.choices else {}
        told += [(kind, delta[kind]) for kind in ("reasoning_content", "content") if delta.get(kind)]
    kinds = [kind for kind, _ in told]
    assert kinds == sorted(kinds, reverse=True) and len(set(kinds)) == 2
    assert "".join(text for kind, text in told if kind == "content") == ANSWER
    assert usage is not None and usage.completion_tokens_details is not None
    assert 5 < (usage.completion_tokens_details.reasoning_tokens or 0) < usage.completion_tokens


@pytest.mark.parametrize(
    "given",
    [
        {"thinking": {"type": "disabled"}},
        {"thinking": False},
        {"reasoning_effort": "none"},
        {"chat_template_kwargs": {"thinking": False}},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ],
)
def test_thinking_is_switched_off_in_the_ways_clients_know(http: httpx.Client, given: dict[str, Any]) -> None:
    found = http.post("/tokenize", json={"messages": ASK} | given).json()
    assert found == http.post("/tokenize", json={"messages": ASK, "thinking": False}).json()
    assert found["count"] < http.post("/tokenize", json={"messages": ASK}).json()["count"]


@pytest.mark.parametrize(("effort", "number"), [("low", 50), ("high", 75), ("max", 100), (1, 1), ("37", 37)])
def test_an_effort_is_a_name_or_a_number(http: httpx.Client, effort: object, number: int) -> None:
    found = http.post("/tokenize", json={"messages": ASK, "reasoning_effort": effort}).json()
    text = http.post("/detokenize", json={"tokens": found["tokens"]}).json()["prompt"]
    assert f"Reasoning Effort: {number} (range" in text


def test_a_stop_string_ends_before_itself(client: openai.OpenAI) -> None:
    answer = ask(client, stop=["ris", "never"])
    assert answer.choices[0].message.content == "The capital of France is Pa"
    assert answer.choices[0].finish_reason == "stop"


def test_a_length_cuts(client: openai.OpenAI) -> None:
    answer = ask(client, max_tokens=3)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("The capital of", "length")
    assert ask(client, max_tokens=10**9).choices[0].finish_reason == "stop"
    newer = ask(client, max_completion_tokens=2, max_tokens=openai.omit)
    assert newer.choices[0].finish_reason == "length"


def test_probabilities_are_told_for_each_token(client: openai.OpenAI) -> None:
    logprobs = ask(client, logprobs=True, top_logprobs=3).choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert "".join(entry.token for entry in logprobs.content) == ANSWER
    for entry in logprobs.content:
        assert len(entry.top_logprobs) == 3
        # Drawn greedily: the likeliest is the one that was taken.
        assert entry.top_logprobs[0].logprob == entry.logprob <= 0
        assert bytes(entry.bytes or ()).decode() == entry.token


def test_a_stream_tells_the_same_probabilities(client: openai.OpenAI) -> None:
    whole = ask(client, logprobs=True, top_logprobs=2, max_tokens=4).choices[0].logprobs
    told = []
    given: Any = {"logprobs": True, "top_logprobs": 2, "max_tokens": 4}
    for chunk in client.chat.completions.create(
        model="any", messages=ASK, temperature=0, stream=True, extra_body=OFF, **given
    ):
        logprobs = chunk.choices[0].logprobs
        told += (logprobs.content or []) if logprobs is not None else []
    assert whole is not None and told == whole.content


def test_several_answers_differ_by_their_seeds_and_the_first_is_the_one_alone(client: openai.OpenAI) -> None:
    given: dict[str, Any] = {"temperature": 3.0, "seed": 11, "max_tokens": 5}
    answer = ask(client, n=3, **given)
    texts = [choice.message.content for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len(set(texts)) == 3
    assert ask(client, **given).choices[0].message.content == texts[0]


def test_several_answers_are_streamed_beside_each_other(client: openai.OpenAI) -> None:
    texts = ["", ""]
    for chunk in client.chat.completions.create(
        model="any", messages=ASK, temperature=0, stream=True, extra_body=OFF, n=2, max_tokens=3
    ):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == ["The capital of"] * 2


def test_without_a_seed_the_answer_is_of_chance_and_says_its_seed(http: httpx.Client) -> None:
    body = {"messages": ASK, "thinking": False, "temperature": 3, "max_tokens": 6}
    first, second = (http.post("/v1/chat/completions", json=body) for _ in range(2))
    texts = [each.json()["choices"][0]["message"]["content"] for each in (first, second)]
    assert texts[0] != texts[1]
    again = http.post("/v1/chat/completions", json=body | {"seed": int(first.headers["x-shoal-seed"])})
    assert again.json()["choices"][0]["message"]["content"] == texts[0]


def test_a_bias_changes_what_is_said(client: openai.OpenAI, live: LiveServer) -> None:
    the = live.served.model.tokenizer.encode("The")[0]
    assert not (ask(client, logit_bias={str(the): -100}).choices[0].message.content or "").startswith("The")


def test_a_conversation_may_begin_with_a_developer_and_hold_a_system_message_later(client: openai.OpenAI) -> None:
    messages = [{"role": "developer", "content": "Be brief."}, *ASK, {"role": "assistant", "content": ANSWER}]
    messages += [{"role": "user", "content": "And of Italy?"}, {"role": "system", "content": "Answer in a sentence."}]
    assert ask(client, messages=messages, max_tokens=2).choices[0].finish_reason == "length"


def test_a_prefix_is_continued(client: openai.OpenAI) -> None:
    messages = [*ASK, {"role": "assistant", "content": "The capital of France is", "prefix": True}]
    assert ask(client, messages=messages).choices[0].message.content == " Paris."


def test_a_text_may_come_in_parts(http: httpx.Client) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": ASK[0]["content"]}]}]
    found = http.post("/tokenize", json={"messages": parts}).json()
    assert found == http.post("/tokenize", json={"messages": ASK}).json()


def test_what_is_unknown_is_ignored(http: httpx.Client) -> None:
    body = {"messages": ASK, "thinking": False, "temperature": 0, "user": "u", "store": True, "of_tomorrow": {"a": 1}}
    found = http.post("/v1/chat/completions", json=body | {"stop": None, "tools": None, "n": None, "max_tokens": 2})
    assert found.json()["choices"][0]["message"]["content"] == "The capital"


@pytest.mark.parametrize(
    ("given", "param", "wanted"),
    [
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": [{"role": "narrator", "content": "a"}]}, "messages[0].role", "narrator"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]", "image_url"),
        ({"messages": [{"role": "user", "content": "<｜deepseek_image｜>"}]}, "messages[0].content", "image marker"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, None, "surrogate"),
        ({"messages": [{"role": "user", "content": "a " * 5000}]}, "messages", "tokens > 2047 maximum"),
        ({"n": 9}, "n", "1 to 8"),
        ({"n": 0}, "n", "greater than or equal to 1"),
        ({"temperature": -1}, "temperature", "greater"),
        ({"top_p": 0}, "top_p", "greater than 0"),
        ({"top_logprobs": 3}, "logprobs", "`logprobs` true"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "0 to 20"),
        ({"stop": ["a"] * 17}, "stop", "at most 16"),
        ({"stop": ""}, "stop", "1 to 1,024"),
        ({"max_tokens": 0}, "max_tokens", "greater"),
        ({"reasoning_effort": "furious"}, "reasoning_effort", "1 to 100"),
        ({"reasoning_effort": 0}, "reasoning_effort", "1 to 100"),
        ({"reasoning_effort": 101}, "reasoning_effort", "1 to 100"),
        ({"reasoning_effort": "none", "thinking": True}, "reasoning_effort", "one of them"),
        ({"thinking": {"type": "sometimes"}}, "thinking.type", "adaptive"),
        ({"chat_template_kwargs": {"thinking": "no"}}, "chat_template_kwargs.thinking", "true or false"),
        ({"tool_choice": "required"}, "tool_choice", "expected `tools`"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0]", "no function with a name"),
        ({"tools": [{"type": "function", "function": {"name": 'a"b'}}]}, "tools[0].function.name", "quote"),
        ({"tools": [{"name": "a"}, {"name": "a"}]}, "tools[1].function.name", "each name once"),
        ({"tools": [{"name": "a"}], "tool_choice": {"function": {"name": "b"}}}, "tool_choice", "by its name"),
        ({"functions": [{"name": "a"}]}, "functions", "expected `tools`"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "no token id"),
        ({"logit_bias": {"-1": 1}}, "logit_bias", "finite number"),
        ({"stream": "perhaps"}, "stream", "boolean"),
    ],
)
def test_what_is_wrong_is_named(http: httpx.Client, given: dict[str, Any], param: str | None, wanted: str) -> None:
    content = json.dumps({"messages": ASK} | given)
    answer = http.post("/v1/chat/completions", content=content)
    error = answer.json()["error"]
    assert answer.status_code == 400, error
    assert error["type"] == "invalid_request_error"
    assert wanted in error["message"]
    assert error["param"] == param


def test_the_official_client_raises_what_it_should(client: openai.OpenAI, live: LiveServer) -> None:
    with pytest.raises(openai.BadRequestError, match="image_url"):
        ask(client, messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}])
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, messages=[{"role": "user", "content": "a " * 5000}])
    assert error.value.code == "context_length_exceeded"
    with (
        openai.OpenAI(base_url=f"{live.url}/v1", api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError, match="the API key is wrong"),
    ):
        ask(stranger)
