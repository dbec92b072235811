"""Completions to their parts. What deepseek-recipe renders must come back as it was."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.text.chat import ChatOptions, render_text
from shoal.text.reply import Call, Reply, parse_reply
from shoal.text.tokenizer import EOS

ASK = {"role": "user", "content": "go"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
ONE = (
    '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n<｜DSML｜ parameter name="city" string="true">Paris'
    '</｜DSML｜ parameter>\n<｜DSML｜ parameter name="days" string="false">3</｜DSML｜ parameter>\n'
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
)


def completion_of(message: dict[str, object], *, thinking: bool) -> str:
    """What a model must write for `message`, by the renderer."""
    options = ChatOptions(thinking=thinking, tools=[TOOL])
    rendered = render_text([ASK, {"role": "assistant", **message}], options)
    return rendered.removeprefix(render_text([ASK], options)).removesuffix(EOS)


def test_plain_text_is_content() -> None:
    assert parse_reply("Paris.") == Reply("Paris.")


def test_in_thinking_mode_the_text_starts_inside_reasoning() -> None:
    assert parse_reply("Look.</think>Paris.", thinking=True) == Reply("Paris.", "Look.")
    assert parse_reply("Look", thinking=True, ended=False) == Reply("", "Look")


@pytest.mark.parametrize("thinking", [False, True])
def test_rendered_calls_come_back_in_order(thinking: bool) -> None:
    arguments = [{"city": 'a "b"\n<c>', "n": 1}, {}, {"deep": {"list": [True, None, 1.5]}}]
    calls = [{"id": str(n), "function": {"name": f"f{n}", "arguments": json.dumps(a)}} for n, a in enumerate(arguments)]
    message = {"content": "So:", "tool_calls": calls, **({"reasoning_content": "Hm"} if thinking else {})}
    reply = parse_reply(completion_of(message, thinking=thinking), thinking=thinking, tools=True)
    assert (reply.content, reply.reasoning) == ("So:", "Hm" if thinking else None)
    assert [call.name for call in reply.calls] == ["f0", "f1", "f2"]
    assert [json.loads(call.arguments) for call in reply.calls] == arguments


def test_without_tools_a_calls_block_is_content() -> None:
    reply = parse_reply(ONE, tools=False)
    assert reply.calls == ()
    assert "Paris" in reply.content


def test_a_call_cut_by_length_has_no_closing_brace() -> None:
    cut = ONE[: ONE.index('\n<｜DSML｜ parameter name="days"')]
    assert parse_reply(cut, tools=True, ended=False).calls == (Call("f", '{"city": "Paris"'),)


def test_a_value_that_is_no_json_stays_as_it_was_written() -> None:
    reply = parse_reply(ONE.replace(">3<", ">three<"), tools=True)
    assert reply.calls == (Call("f", '{"city": "Paris", "days": three}'),)


PIECES = ["<think>", "</think>", "\n\n", *ONE.split("\n"), "<｜DSML｜", "<｜DSML｜ calls>\n", EOS, "x", "{", "é"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans(), st.booleans(), st.booleans())
def test_no_text_is_refused(text: str, thinking: bool, tools: bool, ended: bool) -> None:
    parse_reply(text, thinking=thinking, tools=tools, ended=ended)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_without_markup_comes_back_but_for_leading_newlines(text: str) -> None:
    assert parse_reply(text).content == text.lstrip("\n")
