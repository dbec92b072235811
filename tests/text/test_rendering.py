"""Prompts as the released encoder writes them, and replies that come back as the ids they were."""

import json
from pathlib import Path
from typing import Any

import deepseek_recipe as recipe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import PromptError
from shoal.text.chat import ChatOptions, build_conversation, render, render_text
from shoal.text.rendering import Rendering, encode
from shoal.text.tokenizer import EOS, Tokenizer
from shoal.text.turns import Prefix, Span, Turns

DATA = Path(__file__).parents[1] / "data"
ENCODINGS = json.loads((DATA / "oracle/goldens/encoding.json").read_text(encoding="utf-8"))["encode"]
OPENINGS = ("<｜Assistant｜></think>", "<｜Assistant｜><think>")
# What no request to a server can say: whether old reasoning stays, what went before, tasks that are the vendor's own,
# tools in namespaces, and images, which are refused.
NOT_ASKED = ("keep_thinking", "context_split", "no_bos", "task_", "namespaced", "content_blocks_key", "image")


def asked(case: dict[str, Any]) -> tuple[list[dict[str, Any]], ChatOptions]:
    """The golden's messages as a server gets them."""
    tools, schema, messages = [], None, []
    for message in case["messages"]:
        message = dict(message)
        if message["role"] == "system":
            tools = message.pop("tools", tools)
        schema = message.pop("response_format", schema)
        messages.append({**message, "prefix": message.get("wo_eos", False)})
    kwargs = case["kwargs"]
    thinking = kwargs["thinking_mode"] == "thinking"
    return messages, ChatOptions(thinking, kwargs.get("reasoning_effort"), tools, response_schema=schema)


def is_finished(case: dict[str, Any]) -> bool:
    last = case["messages"][-1]
    return bool(last["role"] == "assistant" and not last.get("wo_eos"))


GIVEN = [case for case in ENCODINGS if "prompt" in case["expect"] and not any(n in case["name"] for n in NOT_ASKED)]


@pytest.mark.parametrize("case", [case for case in GIVEN if not is_finished(case)], ids=lambda case: case["name"])
def test_every_golden_prompt_is_rendered_and_encoded(mini: Tokenizer, case: dict[str, Any]) -> None:
    rendering = render(*asked(case))
    assert rendering.text == case["expect"]["prompt"]
    ids = encode(mini, rendering).ids
    if "mini_token_ids" in case:
        assert list(ids) == case["mini_token_ids"]
    assert mini.decode(ids) == rendering.text


@pytest.mark.parametrize("case", [case for case in GIVEN if is_finished(case)], ids=lambda case: case["name"])
def test_a_finished_conversation_opens_another_turn_behind_the_golden_one(case: dict[str, Any]) -> None:
    messages, options = asked(case)
    text, wanted = render_text(messages, options), case["expect"]["prompt"]
    assert text.endswith(OPENINGS[options.thinking])
    if not options.thinking or options.tools:
        assert text == wanted + OPENINGS[options.thinking]
    else:
        # The answer is an earlier one now, so its reasoning goes, and its header says so.
        assert text.split(OPENINGS[0])[0] == wanted.split(OPENINGS[1])[0]


# The later revision, and deepseek-recipe, take `xhigh`.
REFUSED = [case for case in ENCODINGS if case["name"].startswith("effort_bad/") and "xhigh" not in case["name"]]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"])
def test_an_effort_that_the_released_encoder_refuses_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(PromptError, match="the effort is"):
        render_text(*asked(case))


def test_every_number_is_an_effort() -> None:
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    wanted = render_text(messages, ChatOptions(thinking=True, effort="high"))
    for effort in range(1, 101):
        text = render_text(messages, ChatOptions(thinking=True, effort=effort))
        assert text == wanted.replace("Effort: 75 ", f"Effort: {effort} ")
    assert render_text(messages, ChatOptions(thinking=False, effort=3)) == render_text(messages)


@pytest.mark.parametrize("effort", [1, 75, 100])
def test_a_number_moves_no_marker(mini: Tokenizer, effort: int) -> None:
    rendering = render([{"role": "user", "content": "U"}], ChatOptions(thinking=True, effort=effort))
    spelled = [rendering.text[start:end] for start, end in rendering.markers]
    assert spelled == ["<｜begin▁of▁sentence｜>", "<｜System｜>", "<｜User｜>", "<｜Assistant｜>", "<think>"]


def test_reminders_at_the_end_stand_where_the_reply_begins() -> None:
    user, reminder = {"role": "user", "content": "U"}, {"role": "latest_reminder", "content": "R"}
    end = "<｜User｜>U<｜Assistant｜></think><｜latest_reminder｜>R"
    assert render_text([user, reminder]).endswith(end)
    rendering = render([user, reminder])
    spelled = [rendering.text[start:stop] for start, stop in rendering.markers]
    assert spelled[-3:] == ["<｜Assistant｜>", "</think>", "<｜latest_reminder｜>"]
    assert render_text([reminder]) == "<｜begin▁of▁sentence｜><｜latest_reminder｜>R<｜Assistant｜></think>"


SPELLED = ("<think>", "</think>", "<｜User｜>", EOS, "｜DSML｜ calls>", "a", " ", "\n")
MARKED = st.lists(st.sampled_from(SPELLED)).map("".join)


@given(MARKED, MARKED, MARKED)
def test_no_text_of_a_conversation_becomes_a_marker(mini: Tokenizer, said: str, thought: str, called: str) -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": json.dumps({"a": called})}}
    messages = [
        {"role": "system", "content": said},
        {"role": "user", "content": said},
        {"role": "assistant", "content": said, "reasoning_content": thought, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": said},
    ]
    options = ChatOptions(thinking=True, tools=[{"name": "f", "description": said}])
    plain = [{**message, "content": "", "reasoning_content": ""} for message in messages]
    plain[2] |= {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a": ""}'}}]}
    bare = ChatOptions(thinking=True, tools=[{"name": "f", "description": ""}])
    markers = {mini.marker_id(each) for each in ("<think>", "</think>", "<｜User｜>", EOS, "｜DSML｜")}
    found = [each for each in encode(mini, render(messages, options)).ids if each in markers]
    assert found == [each for each in encode(mini, render(plain, bare)).ids if each in markers]


def byte_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of `text` as no tokenizer would choose them: a letter each."""
    return [token_id for letter in text for token_id in tokenizer.encode_with_markers(letter)]


def test_a_reply_comes_back_as_the_ids_it_was(mini: Tokenizer) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Where?"}]
    turns, options = Turns(), ChatOptions()
    for reply in ("In Paris.", "Yes.", "No, in Rome."):
        prompt = encode(mini, render(messages, options), turns)
        messages.append({"role": "assistant", "content": reply})
        given_ids = byte_ids(mini, reply)
        assert given_ids != mini.encode(reply)
        span = Rendering.of(build_conversation(messages, options)).last_turn()
        assert span is not None
        turns.remember(prompt.ids, span, given_ids)
        messages.append({"role": "user", "content": "Sure?"})
        following = encode(mini, render(messages, options), turns).ids
        assert following[: len(prompt.ids) + len(given_ids) + 1] == (*prompt.ids, *given_ids, 1)
        # Whoever says the same elsewhere gets the tokenizer's ids.
        assert encode(mini, render([{"role": "user", "content": "Else?"}, *messages[1:]], options), turns).ids == (
            encode(mini, render([{"role": "user", "content": "Else?"}, *messages[1:]], options)).ids
        )


def test_a_reply_with_the_same_text_and_other_markers_is_another() -> None:
    turns, text = Turns(), "a</think>b</think>c"
    turns.remember([0], Span(text, ((1, 9),)), [7])
    prefix = Prefix()
    prefix.extend([0])
    assert turns.recall(prefix, Span(text, ((1, 9),))) == (7,)
    assert turns.recall(prefix, Span(text, ((10, 18),))) is None


def test_replies_are_forgotten_beyond_what_may_be_kept() -> None:
    turns = Turns(most_ids=10)
    for number in range(4):
        turns.remember([number], Span("a", ()), [1, 2, 3])
    known = []
    for number in range(4):
        prefix = Prefix()
        prefix.extend([number])
        known.append(turns.recall(prefix, Span("a", ())) is not None)
    assert known == [False, True, True, True]


def test_the_system_prompt_has_an_end(mini: Tokenizer) -> None:
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    prompt = encode(mini, render(messages))
    assert mini.decode(prompt.ids[: prompt.system_end]).endswith("<｜System｜>S")
    assert encode(mini, render(messages[:1])).system_end == 0


def test_an_image_is_refused() -> None:
    image = recipe.DataUrlImageSource("data:image/png;base64,AAAA")
    conversation = recipe.Conversation([recipe.UserMessage("see <｜image｜>", [image])])
    with pytest.raises(PromptError, match=r"`messages\[0\]` holds an image"):
        Rendering.of(conversation)
