"""Stop strings, however the text is cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.text.stop_strings import StopStrings


def run(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    watch = StopStrings(stops)
    text = "".join([watch.push(piece) for piece in pieces])
    return text + watch.flush(), watch.found


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
    st.text("abc", max_size=30),
    st.lists(st.integers(0, 30), max_size=10),
)
def test_the_text_ends_before_the_first_stop_string_however_it_is_cut(
    stops: list[str], text: str, places: list[int]
) -> None:
    ends = [(end, end - len(stop)) for end in range(len(text) + 1) for stop in stops if text[:end].endswith(stop)]
    whole, found = run(stops, [text])
    assert whole == (text[: min(ends)[1]] if ends else text)
    assert (found is None) == (not ends)
    assert run(stops, cut(text, places)) == (whole, found)


def test_no_more_is_held_back_than_a_stop_string_may_begin_with() -> None:
    watch = StopStrings(["END", "\n\n"])
    assert [watch.push(piece) for piece in ("a", "bE", "N", "x\n", "y")] == ["a", "b", "", "ENx", "\ny"]
    assert [watch.push(piece) for piece in ("zEN", "D more", "again")] == ["z", "", ""]
    assert (watch.found, watch.flush()) == ("END", "")


def test_what_is_held_back_comes_at_the_end() -> None:
    watch = StopStrings(["END"])
    assert (watch.push("the E"), watch.flush(), watch.flush()) == ("the ", "E", "")


@pytest.mark.parametrize("stops", [[], ["never"]])
def test_without_one_everything_passes(stops: list[str]) -> None:
    assert run(stops, ["ab", "", "c"]) == ("abc", None)
