"""Golden completions, cut anywhere: the same reply, nothing invented, no markup shown."""

import codecs
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import deepseek_recipe as recipe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.text.reply_reader import ReplyReader
from shoal.text.tokenizer import EOS

DATA = Path(__file__).parents[1] / "data"
GOLDENS = json.loads((DATA / "oracle/goldens/encoding.json").read_text(encoding="utf-8"))["parse"]
MARKUP = ("｜DSML｜", "<｜", "</think>")


class Parsed(NamedTuple):
    reasoning: str
    content: str
    calls: list[tuple[str, Any]]
    reason: str

    @property
    def shown(self) -> str:
        return self.reasoning + self.content + "".join(name + arguments for name, arguments in self.calls)


def parsed(
    pieces: Iterable[str], *, thinking: bool, whole: bool = False, cut: bool = False, stops: tuple[str, ...] = ()
) -> Parsed:
    request = recipe.ConversationRequest(recipe.Conversation([]), recipe.ModelVersion.DeepseekV41Flash)
    start = recipe.ThinkingInitialStage.ReasoningStart if thinking else None
    options = recipe.ParsingOptions(thinking_initial_stage=start, stop_sequences=stops)
    reader = ReplyReader(recipe.ChatCompletionRequest.chunk_generator(request, "", ""), options, whole=whole)
    response = recipe.ChatCompletionResponse("", "", 0, 0, 0)
    chunks = [*reader.start(3, 0)]
    for piece in pieces:
        chunks += reader.push(piece)
    for chunk in (*chunks, *reader.finish(is_cut=cut)):
        assert isinstance(chunk, recipe.ChatCompletionChunk)
        response.accumulate(chunk)
    choice = json.loads(response.to_json())["choices"][0]
    message = choice["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    return Parsed(message.get("reasoning_content") or "", message.get("content") or "", calls, choice["finish_reason"])


def by_bytes(text: str) -> Iterator[str]:
    """A byte at a time, as a detokeniser gives them."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    return (decoder.decode(bytes([byte])) for byte in text.encode())


def said(case: dict[str, Any]) -> tuple[str, bool]:
    return case["text"].split(EOS)[0], case["thinking_mode"] == "thinking"


STRICT = [case for case in GOLDENS if "raises" not in case["expect"]]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("case", STRICT, ids=range(len(STRICT)))
def test_a_golden_completion_has_the_golden_parts(case: dict[str, Any], whole: bool) -> None:
    text, thinking = said(case)
    wanted = case["expect"]["message"]
    found = parsed([text], thinking=thinking, whole=whole)
    assert (found.reasoning, found.content) == (wanted["reasoning_content"], wanted["content"])
    names = [
        "::".join(filter(None, (call.get("namespace"), call["function"]["name"]))) for call in wanted["tool_calls"]
    ]
    assert found.calls == [
        (name, call["function"]["arguments"]) for name, call in zip(names, wanted["tool_calls"], strict=True)
    ]
    assert found.reason == ("tool_calls" if wanted["tool_calls"] else "stop")


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("case", GOLDENS, ids=range(len(GOLDENS)))
def test_however_it_is_cut_into_pieces_it_is_the_same(case: dict[str, Any], whole: bool) -> None:
    text, thinking = said(case)
    once = parsed([text], thinking=thinking, whole=whole)
    assert parsed(by_bytes(text), thinking=thinking, whole=whole) == once
    for at in range(len(text)):
        assert parsed([text[:at], text[at:]], thinking=thinking, whole=whole) == once


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("case", GOLDENS, ids=range(len(GOLDENS)))
def test_cut_short_anywhere_it_is_a_beginning_of_the_whole(case: dict[str, Any], whole: bool) -> None:
    text, thinking = said(case)
    once = parsed([text], thinking=thinking, whole=whole)
    for end in range(len(text) + 1):
        found = parsed([text[:end]], thinking=thinking, whole=whole, cut=True)
        assert found.reason in ("length", "tool_calls")
        assert not any(mark in found.shown for mark in MARKUP), (end, found)
        assert len(found.calls) <= len(once.calls)
        for (name, arguments), (whole_name, whole_arguments) in zip(found.calls, once.calls, strict=False):
            assert name == whole_name and whole_arguments.startswith(arguments), end
        if not found.calls:
            # A marker that has only begun may be text still.
            assert once.content.startswith(found.content.rstrip("\n")) or once.content in found.content
    assert once.calls == [] or json.loads(once.calls[0][1]) is not None


def test_equal_names_and_values_that_are_no_json_are_read_kindly() -> None:
    block = '<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n{}\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
    value = '<｜DSML｜ parameter name="x" string="{}">{}</｜DSML｜ parameter>'
    twice = block.format(value.format("true", "1") + "\n" + value.format("false", "2"))
    assert parsed([twice], thinking=False, whole=True).calls == [("f", '{"x": 2}')]
    assert json.loads(parsed([twice], thinking=False).calls[0][1]) == {"x": 2}
    no_json = block.format(value.format("false", "tomorrow"))
    assert parsed([no_json], thinking=False).calls == [("f", '{"x": "tomorrow"}')]
    unsaid = block.format(value.replace(' string="{}"', "").format("[1]"))
    assert parsed([unsaid], thinking=False).calls == [("f", '{"x": [1]}')]


def test_a_block_in_the_reasoning_ends_it() -> None:
    text = 'r\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>tail'
    assert parsed([text], thinking=True) == Parsed("r", "", [("f", "{}")], "tool_calls")


def test_a_stop_string_is_looked_for_in_the_content_alone() -> None:
    found = parsed("one STOP</think>two STOP three", thinking=True, stops=("STOP",))
    assert (found.reasoning, found.content, found.reason) == ("one STOP", "two ", "stop")


TAGS = (
    *("<｜DSML｜ calls>", "</｜DSML｜ calls>", '<｜DSML｜ invoke name="f">', "</｜DSML｜ invoke>"),
    *('<｜DSML｜ parameter name="a" string="true">', '<｜DSML｜ parameter name="b">', "</｜DSML｜ parameter>"),
)
PIECES = ["<think>", "</think>", "\n\n", *TAGS, EOS, "x", "{", "é", '"']


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.booleans(), st.booleans(), st.booleans())
def test_no_text_is_refused_and_no_tag_is_shown(pieces: list[str], thinking: bool, whole: bool, cut: bool) -> None:
    found = parsed(pieces, thinking=thinking, whole=whole, cut=cut)
    assert found == parsed("".join(pieces), thinking=thinking, whole=whole, cut=cut)
    assert "｜DSML｜" not in found.reasoning + found.content
    for _, arguments in found.calls[:-1]:
        assert isinstance(json.loads(arguments), dict)
