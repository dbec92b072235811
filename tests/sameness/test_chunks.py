"""A prompt cut anywhere gives the bits of one forward: every row's logits and all that is remembered."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

# Window 32, groups of 2: odd and even lengths short of the window, at it, past it and past twice it.
LENGTHS = (29, 32, 37, 66)


@st.composite
def cut(draw: st.DrawFn) -> list[int]:
    """A length and up to five places to cut it, as chunk sizes."""
    length = draw(st.sampled_from(LENGTHS))
    places = sorted(draw(st.sets(st.integers(1, length - 1), max_size=5)))
    return [end - start for start, end in zip([0, *places], [*places, length], strict=True)]


@settings(max_examples=3)
@given(st.lists(cut(), min_size=3, max_size=3))
def test_a_prompt_cut_anywhere_is_the_whole_prompt(driver: Any, cuts: list[list[int]]) -> None:
    cuts = cuts[:1] if driver.is_slow else cuts
    for run, sizes in zip(driver.lockstep([driver.prompt(sizes) for sizes in cuts]), cuts, strict=True):
        assert run.differences(driver.whole(sum(sizes))) == [], sizes


def chunks_of(size: int, length: int, before: list[int]) -> list[int]:
    return [*before, *[size] * (length // size), *[length % size] * (length % size > 0)]


def test_chunks_of_one_size_are_the_whole_prompt(driver: Any) -> None:
    length = 35
    sizes = (1, 2, 7, 33)
    # What a slow one reads at once first, still short of the window.
    head = 24 if driver.is_slow else 0
    cuts = [chunks_of(size, length - head, [head] * driver.is_slow) for size in sizes]
    for run, size in zip(driver.lockstep([driver.prompt(cut) for cut in cuts]), sizes, strict=True):
        assert run.differences(driver.whole(length)) == [], size


def test_a_row_does_not_depend_on_what_follows(driver: Any) -> None:
    longer = driver.whole(66).logits
    for length in LENGTHS[:3]:
        assert (driver.whole(length).logits == longer[:length]).all()
