"""Tool calls that the parser would misread come out as its own renderer writes them, however the text is cut."""

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.text.calls_markup import CallsMarkup
from shoal.text.chat import ChatOptions, render_text
from shoal.text.tokenizer import EOS

BLOCK = (
    'So:\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n'
    '<｜DSML｜ parameter name="city" string="true">Pa"ris < </｜DSML｜ parameter>\n'
    '<｜DSML｜ parameter name="days" string="false">[3, {"a": null}]</｜DSML｜ parameter>\n'
    '</｜DSML｜ invoke>\n<｜DSML｜ invoke name="g">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
)


def rewritten(pieces: Iterable[str], *, whole: bool = False, inside: bool = False, single: bool = False) -> str:
    markup = CallsMarkup(whole=whole, inside=inside, single=single)
    return "".join([markup.push(piece) for piece in pieces]) + markup.flush()


@pytest.mark.parametrize("whole", [False, True])
def test_what_the_renderer_writes_stays_as_it_is(whole: bool) -> None:
    assert rewritten([BLOCK], whole=whole) == BLOCK
    assert rewritten(BLOCK, whole=whole) == BLOCK


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "spoilt",
    [
        BLOCK.replace("｜DSML｜ ", "｜DSML｜"),
        BLOCK.replace("｜ calls>", "｜tool_calls>"),
        BLOCK.replace("｜ calls>", "｜function_calls>"),
        BLOCK.replace('days" string="false"', 'days"'),
        BLOCK.replace("<｜DSML｜ calls>\n", ""),
        BLOCK.replace("</｜DSML｜ invoke>\n<", "<", 1),
        BLOCK.replace("</｜DSML｜ invoke>\n</｜DSML｜ calls>", "</｜DSML｜ calls>"),
        BLOCK.replace("<｜DSML｜ calls>\n", "<｜DSML｜ calls>\nLet me call:\n"),
        BLOCK.replace("</｜DSML｜ calls>", "</｜DSML｜ calls>\n\nDone."),
        BLOCK.replace("</｜DSML｜ parameter>\n<", "</｜DSML｜ parameter>, <"),
    ],
)
def test_what_is_spoilt_is_mended(spoilt: str, whole: bool) -> None:
    assert spoilt != BLOCK
    assert rewritten([spoilt], whole=whole) == BLOCK
    assert rewritten(spoilt, whole=whole) == BLOCK


@pytest.mark.parametrize("value", ["three", "", "{", "NaN", "[1,]", "'a'", "Infinity", "[" * 5000])
def test_a_value_that_is_no_json_is_a_string(value: str) -> None:
    spoilt = BLOCK.replace('[3, {"a": null}]', value)
    assert f'name="days" string="true">{value}</' in rewritten([spoilt])


def test_of_equal_names_the_last_stays() -> None:
    twice = BLOCK.replace("days", "city")
    assert "Pa" not in rewritten([twice], whole=True)
    assert rewritten([twice], whole=True).count("parameter name") == 1
    # While it is streamed both are there, and a reader of JSON takes the last.
    assert rewritten([twice]).count("parameter name") == 2


def test_the_first_call_ends_the_block_where_one_is_wanted() -> None:
    markup = CallsMarkup(single=True)
    text = markup.push(BLOCK)
    assert markup.is_over
    assert text.count("invoke name") == 1 and text.endswith("</｜DSML｜ invoke>\n</｜DSML｜ calls>")
    unclosed = BLOCK.replace("</｜DSML｜ invoke>\n<｜DSML｜ invoke", "<｜DSML｜ invoke")
    assert rewritten([unclosed], single=True) == text
    alone = BLOCK[: BLOCK.index('<｜DSML｜ invoke name="g')] + "</｜DSML｜ calls>"
    assert rewritten([alone], single=True) == text


def test_a_block_that_the_prompt_opened_needs_no_opening() -> None:
    start = BLOCK.index("<｜DSML｜ invoke")
    assert rewritten([BLOCK[start:]], inside=True) == BLOCK[start:]
    assert rewritten(["\n" + BLOCK[start:]], inside=True) == BLOCK[start:]


@pytest.mark.parametrize("stray", ["</｜DSML｜ calls>", "</｜DSML｜ invoke>", "</｜DSML｜ parameter>", "<｜DSML｜ x>"])
def test_stray_tags_are_dropped(stray: str) -> None:
    assert rewritten([f"a{stray}b"]) == "ab"


@pytest.mark.parametrize("whole", [False, True])
def test_cut_anywhere_nothing_is_made_up(whole: bool) -> None:
    for end in range(len(BLOCK)):
        cut = rewritten([BLOCK[:end]], whole=whole)
        assert BLOCK.startswith(cut), (end, cut)
        if not whole and end > BLOCK.index("Pa"):
            assert "Pa" in cut or end == BLOCK.index("Pa") + 1


PIECES = [*(BLOCK.replace("\n", "\n|").split("|")), "<", "</", "｜", "<｜DSML｜", 'name="', ">", "a", '"']


@given(st.lists(st.sampled_from(PIECES), max_size=16), st.booleans(), st.booleans())
def test_pieces_never_change_what_comes_out(pieces: list[str], whole: bool, inside: bool) -> None:
    text = "".join(pieces)
    assert rewritten(pieces, whole=whole, inside=inside) == rewritten([text], whole=whole, inside=inside)
    assert rewritten(text, whole=whole, inside=inside) == rewritten([text], whole=whole, inside=inside)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text("a<｜/D\n\"'é{", max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.text("abc_-é .", min_size=1, max_size=6)


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=3), min_size=1, max_size=3), st.booleans())
def test_every_rendered_call_stays_as_it_is(arguments: list[dict[str, object]], whole: bool) -> None:
    calls = [{"id": str(n), "function": {"name": "f", "arguments": json.dumps(a)}} for n, a in enumerate(arguments)]
    ask, options = {"role": "user", "content": "go"}, ChatOptions(tools=[{"name": "f"}])
    message = {"role": "assistant", "content": "x", "tool_calls": calls}
    block = render_text([ask, message], options).split("</think>x")[-1].split(EOS)[0]
    assert rewritten([block], whole=whole) == block
    assert rewritten(block, whole=whole) == block
