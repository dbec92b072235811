"""`/v1/completions`, `/v1/models`, `/tokenize` and `/detokenize`."""

from typing import Any

import httpx
import openai
import pytest

from serve.conftest import LiveServer

PROMPT = "The capital of France is"


def ask(client: openai.OpenAI, prompt: Any = PROMPT, **given: Any) -> Any:
    return client.completions.create(model="any", prompt=prompt, **({"temperature": 0, "max_tokens": 4} | given))


def test_a_text_goes_on(client: openai.OpenAI) -> None:
    answer = ask(client)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (" Paris.", "stop")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (8, 2)


def test_a_stream_gives_the_same_and_its_usage_last(client: openai.OpenAI) -> None:
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == " Paris."
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 2


def test_the_prompt_can_be_repeated(client: openai.OpenAI) -> None:
    assert ask(client, echo=True).choices[0].text == f"{PROMPT} Paris."
    assert "".join(chunk.choices[0].text for chunk in ask(client, echo=True, stream=True)) == f"{PROMPT} Paris."


def test_bos_is_put_before_a_text_once_and_never_before_ids(client: openai.OpenAI, live: LiveServer) -> None:
    ids = live.served.model.tokenizer.encode(PROMPT)
    assert ask(client).usage.prompt_tokens == len(ids) + 1
    whole = ask(client, [0, *ids], echo=True)
    assert whole.choices[0].text == f"{PROMPT} Paris."
    assert whole.usage.prompt_tokens == len(ids) + 1
    spelled = ask(client, f"<｜begin▁of▁sentence｜>{PROMPT}", extra_body={"parse_special": True})
    assert spelled.usage.prompt_tokens == len(ids) + 1
    assert ask(client, f"<｜begin▁of▁sentence｜>{PROMPT}", max_tokens=1).usage.prompt_tokens > len(ids) + 5


def test_several_prompts_and_several_answers_keep_their_order(client: openai.OpenAI) -> None:
    answer = ask(client, [PROMPT, "The capital of Italy is"], n=2, max_tokens=1)
    assert [(choice.index, choice.text) for choice in answer.choices] == [
        (0, " Paris"),
        (1, " Paris"),
        (2, " Rome"),
        (3, " Rome"),
    ]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (16, 4)


@pytest.mark.parametrize("stream", [False, True])
def test_probabilities_come_in_the_old_shape(client: openai.OpenAI, stream: bool) -> None:
    found = ask(client, logprobs=2, stream=stream)
    told = [chunk.choices[0].logprobs for chunk in found] if stream else [found.choices[0].logprobs]
    assert [token for each in told for token in each.tokens] == [" Paris", "."]
    assert [offset for each in told for offset in each.text_offset] == [0, 6]
    assert [len(top) for each in told for top in each.top_logprobs] == [2, 2]


def test_a_stop_string_ends_a_stream_across_its_pieces(client: openai.OpenAI) -> None:
    chunks = list(ask(client, stop="is.", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == " Par"
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": ["a", 1]}, "prompt"),
        ({"prompt": {}}, "prompt"),
        ({"prompt": [[]]}, None),
        ({"prompt": [1 << 40]}, None),
        ({"prompt": [-1]}, None),
        ({"prompt": ["a"] * 65}, "prompt"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"echo": True, "logprobs": 1}, "logprobs"),
        ({"logprobs": 21}, "logprobs"),
        ({"prompt": "a " * 5000}, "prompt"),
    ],
)
def test_what_is_wrong_is_named(http: httpx.Client, given: dict[str, Any], param: str | None) -> None:
    answer = http.post("/v1/completions", json={"prompt": "a"} | given)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


def test_the_one_model_is_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["miniature"]
    assert client.models.retrieve("miniature").model_dump()["max_model_len"] == 2048
    with pytest.raises(openai.NotFoundError, match="expected `miniature`"):
        client.models.retrieve("another/one")


def test_text_becomes_ids_and_ids_text(http: httpx.Client) -> None:
    found = http.post("/tokenize", json={"prompt": "a <think> b", "return_token_strs": True}).json()
    assert found["tokens"][0] == 0 and found["count"] == len(found["tokens"]) == len(found["token_strs"])
    assert http.post("/detokenize", json={"tokens": found["tokens"][1:]}).json() == {"prompt": "a <think> b"}
    read = http.post("/tokenize", json={"content": "a <think> b", "parse_special": True, "add_special_tokens": False})
    assert 0 < read.json()["count"] < found["count"] - 1


@pytest.mark.parametrize("body", [{}, {"prompt": "a", "messages": []}, {"messages": []}, {"prompt": "\ud800"}])
def test_nothing_to_tokenize_is_an_error(http: httpx.Client, body: dict[str, Any]) -> None:
    import json

    assert http.post("/tokenize", content=json.dumps(body)).status_code == 400


@pytest.mark.parametrize("tokens", [["a"], [-1], [1 << 70], "a", None, [1.5], [True]])
def test_ids_that_are_none_are_an_error(http: httpx.Client, tokens: Any) -> None:
    assert http.post("/detokenize", json={"tokens": tokens}).status_code == 400
