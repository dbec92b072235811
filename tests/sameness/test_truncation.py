"""A sequence cut back and continued gives the bits of one that never went further."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

JUNK = 7
END = 40


def test_any_cut_of_a_short_pass_at_either_parity_leaves_no_trace(native: Any) -> None:
    cases = [(base, count, kept) for base in (30, 31) for count in range(1, 7) for kept in range(count + 1)]
    caches = [native.copy_of(native.whole(base).cache) for base, _, _ in cases]
    drafts = [native.ids[base : base + kept] + [JUNK] * (count - kept) for base, count, kept in cases]
    native.advance(drafts, caches)
    for cache, (base, _, kept) in zip(caches, cases, strict=True):
        cache.truncate(base + kept)
    rest = [[native.ids[base + kept : END]] for base, _, kept in cases]
    wanted = native.whole(END)
    for run, (base, count, kept) in zip(native.lockstep(rest, caches), cases, strict=True):
        assert run.differences(wanted, base + kept) == [], (base, count, kept)


@settings(max_examples=3)
@given(
    st.sampled_from([1, 2, 29, 63, 64]),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=4),
)
def test_drafting_and_cutting_again_and_again_leaves_no_trace(
    native: Any, base: int, rounds: list[tuple[int, int]]
) -> None:
    cache = native.copy_of(native.whole(base).cache)
    for right, wrong in rounds:
        start = cache.length
        chunk = native.ids[start : start + right] + [JUNK] * wrong
        if chunk:
            native.advance([chunk], [cache])
            # In two cuts: the rest of a pass can still be cut.
            cache.truncate(start + right + wrong // 2)
            cache.truncate(start + right)
    reached = cache.length
    (run,) = native.lockstep([[native.ids[reached : reached + 3]]], [cache])
    assert run.differences(native.whole(reached + 3), reached) == []


@pytest.mark.parametrize("base", [0, 5, 33])
def test_a_pass_longer_than_the_window_can_be_undone_whole(native: Any, base: int) -> None:
    cache = native.copy_of(native.whole(base).cache) if base else native.backbone.new_cache()
    native.advance([[JUNK] * 35], [cache])
    assert not cache.can_truncate(base + 1)
    cache.truncate(base)
    (run,) = native.lockstep([[native.ids[base:END]]], [cache])
    assert run.differences(native.whole(END), base) == []


def test_a_pass_of_exactly_the_window_can_be_cut_anywhere(native: Any) -> None:
    caches = [native.copy_of(native.whole(5).cache) for _ in range(3)]
    kept = (1, 16, 31)
    native.advance([native.ids[5 : 5 + k] + [JUNK] * (32 - k) for k in kept], caches)
    for cache, k in zip(caches, kept, strict=True):
        cache.truncate(5 + k)
    runs = native.lockstep([[native.ids[5 + k : END]] for k in kept], caches)
    assert [run.differences(native.whole(END), 5 + k) for run, k in zip(runs, kept, strict=True)] == [[]] * 3
