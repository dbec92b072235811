import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import PromptError
from shoal.text.chat import ChatOptions, render_chat, render_text
from shoal.text.tokenizer import IMAGE, Tokenizer

DATA = Path(__file__).parents[1] / "data"
PROMPTS = json.loads((DATA / "release/golden/prompt_golden.json").read_text(encoding="utf-8"))["cases"]
ENCODINGS = json.loads((DATA / "oracle/goldens/encoding.json").read_text(encoding="utf-8"))["encode"]
# What the released encoder does and a Chat Completions conversation cannot ask for, or recipe does otherwise.
NOT_CHAT = ("keep_thinking", "context_split", "no_bos", "task_", "response_format", "ends_with_assistant")


def _golden_options(case: dict[str, Any]) -> ChatOptions:
    spec = case["spec"]
    # The golden names its tools only; their definitions stand in the prompt, one JSON object a line.
    tools = [json.loads(line) for line in case["prompt"].split("\n") if line.startswith('{"name": ')]
    return ChatOptions(
        thinking=spec["thinking_mode"],
        effort=spec.get("reasoning_effort"),
        tools=tools or [{"name": name} for name in spec.get("tools", [])],
        tool_choice=spec.get("tool_choice", "auto"),
        json_object=spec.get("response_format") == "json_object",
        response_schema=spec.get("response_schema"),
    )


@pytest.mark.parametrize(
    "case", [case for case in PROMPTS if "messages" in case["spec"]], ids=lambda case: case["name"]
)
def test_release_prompts_are_the_golden_ones(release: Tokenizer, case: dict[str, Any]) -> None:
    messages, options = case["spec"]["messages"], _golden_options(case)
    assert render_text(messages, options) == case["prompt"]
    assert render_chat(release, messages, options) == case["ids"]


def _is_plain_chat(case: dict[str, Any]) -> bool:
    roles = {message["role"] for message in case["messages"]}
    texts = all(isinstance(message.get("content"), str) for message in case["messages"])
    plain = roles <= {"system", "user", "assistant"} and texts and "mini_token_ids" in case
    calls = any(message.get("tool_calls") for message in case["messages"])
    return plain and not calls and not any(name in case["name"] for name in NOT_CHAT)


@pytest.mark.parametrize("case", [*filter(_is_plain_chat, ENCODINGS)], ids=lambda case: case["name"])
def test_plain_chats_render_as_the_released_encoder_does(mini: Tokenizer, case: dict[str, Any]) -> None:
    messages = [{**message, "prefix": message.get("wo_eos", False)} for message in case["messages"]]
    options = ChatOptions(thinking=case["kwargs"]["thinking_mode"] == "thinking")
    assert render_text(messages, options) == case["expect"]["prompt"]
    assert render_chat(mini, messages, options) == case["mini_token_ids"]


def test_the_vector_of_the_specification_is_met(release: Tokenizer) -> None:
    ids = render_chat(release, [{"role": "user", "content": "What is 2+2?"}])
    assert ids == [0, 128803, 3085, 344, 223, 20, 13, 20, 33, 128804, 128822]


def test_thinking_opens_the_reasoning(release: Tokenizer) -> None:
    ids = render_chat(release, [{"role": "user", "content": "U"}], ChatOptions(thinking=True))
    assert ids[-2:] == [release.marker_id("<｜Assistant｜>"), release.marker_id("<think>")]


@pytest.mark.parametrize("number", [1, 42, 75, 100])
def test_an_effort_may_be_a_number(release: Tokenizer, number: int) -> None:
    messages = [{"role": "system", "content": "S </think>"}, {"role": "user", "content": "<｜User｜>"}]
    text = render_text(messages, ChatOptions(thinking=True, effort=number))
    assert text.startswith(f"<｜begin▁of▁sentence｜><｜System｜>Reasoning Effort: {number} (range 1-100, ")
    named = ChatOptions(thinking=True, effort="high")
    assert text.replace(f"Effort: {number} ", "Effort: 75 ") == render_text(messages, named)
    digits = release.encode(f"Reasoning Effort: {number} (range")
    ids, others = (
        render_chat(release, messages, ChatOptions(thinking=True, effort=number)),
        render_chat(release, messages, named),
    )
    assert ids[2 : 2 + len(digits)] == digits
    assert ids[-30:] == others[-30:]


@pytest.mark.parametrize("number", [0, 101, -1])
def test_an_effort_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(PromptError, match=f"the effort is `{number}`, expected .* a number from 1 to 100"):
        render_text([{"role": "user", "content": "U"}], ChatOptions(thinking=True, effort=number))


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<｜User｜>", "<｜begin▁of▁sentence｜>", "｜DSML｜", "a", " "]))
)
def test_no_message_can_forge_a_marker(mini: Tokenizer, pieces: list[str]) -> None:
    content = "".join(pieces)
    ids = render_chat(mini, [{"role": "system", "content": content}, {"role": "user", "content": content}])
    text = mini.encode(content)
    system, user, assistant = (mini.marker_id(f"<｜{name}｜>") for name in ("System", "User", "Assistant"))
    assert ids == [0, system, *text, user, *text, assistant, mini.marker_id("</think>")]


def test_text_parts_are_joined_by_a_blank_line() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert render_text([{"role": "user", "content": parts}]) == render_text([{"role": "user", "content": "a\n\nb"}])


def test_a_developer_message_is_a_system_message() -> None:
    assert "<｜System｜>be terse" in render_text([{"role": "developer", "content": "be terse"}])


def test_a_conversation_that_ends_with_an_answer_opens_another_turn() -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    assert render_text(messages).endswith("hello<｜end▁of▁sentence｜><｜Assistant｜></think>")


def test_tools_may_be_written_flat_or_as_functions() -> None:
    flat = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    messages = [{"role": "user", "content": "go"}]
    wrapped = ChatOptions(tools=[{"type": "function", "function": flat}])
    assert '{"name": "f"' in render_text(messages, wrapped)
    assert render_text(messages, wrapped) == render_text(messages, ChatOptions(tools=[flat]))


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        ([], "the conversation has no messages"),
        ([{"role": "user", "content": "a"}, {"role": "narrator"}], r"`messages\[1\].role` is `narrator`"),
        ([{"content": "a"}], r"`messages\[0\].role` is `None`"),
        ([{"role": "user", "content": 3}], r"`messages\[0\].content` is `int`"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], r"content\[0\]` is a `image_url` part"),
        ([{"role": "user", "content": ["a"]}], r"content\[0\]` is a `str` part"),
        ([{"role": "user", "content": f"see {IMAGE}"}], "contains the image marker"),
        ([{"role": "assistant", "content": "", "reasoning_content": IMAGE}], "contains the image marker"),
        ([{"role": "assistant", "content": "", "reasoning_content": 1}], "reasoning_content` is `int`"),
        ([{"role": "assistant", "content": "", "tool_calls": "f"}], "tool_calls` is `str`"),
        ([{"role": "assistant", "content": "", "tool_calls": ["f"]}], r"tool_calls\[0\]` is `str`"),
        (
            [{"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}],
            r"tool_calls\[0\]` has no `name`",
        ),
    ],
)
def test_what_cannot_be_rendered_is_named(messages: list[dict[str, Any]], wanted: str) -> None:
    with pytest.raises(PromptError, match=wanted):
        render_text(messages)


def test_half_a_surrogate_pair_in_a_message_is_refused(mini: Tokenizer) -> None:
    with pytest.raises(PromptError, match="surrogate"):
        render_chat(mini, [{"role": "user", "content": "\ud800"}])
