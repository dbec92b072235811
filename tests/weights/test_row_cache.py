"""The row cache against a dictionary that never forgets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.weights.row_cache import ABSENT, PLACE_NBYTES, RowCache

WIDTHS = 6, 2
ROW_NBYTES = sum(WIDTHS) + PLACE_NBYTES
KEYS = st.lists(st.integers(0, 2**45), max_size=30, unique=True) | st.lists(
    st.integers(0, 40), max_size=30, unique=True
)


def rows_of(keys: np.ndarray) -> list[np.ndarray]:
    """What a key's row holds, by definition."""
    parts = [
        [[(key * 31 + column * 7 + width) % 256 for column in range(width)] for key in keys.tolist()]
        for width in WIDTHS
    ]
    return [np.array(part, dtype=np.uint8).reshape(len(keys), width) for part, width in zip(parts, WIDTHS, strict=True)]


@given(rows=st.integers(0, 40), steps=st.lists(st.tuples(st.booleans(), KEYS), max_size=12))
def test_what_is_found_is_what_was_put(rows: int, steps: list[tuple[bool, list[int]]]) -> None:
    cache, put = RowCache(WIDTHS, rows * ROW_NBYTES, 1000), set()
    for is_put, listed in steps:
        keys = np.array(listed, dtype=np.int64)
        if is_put:
            cache.put(keys, rows_of(keys))
            put.update(listed)
        places = cache.find(keys)
        found = places != ABSENT
        assert set(keys[found].tolist()) <= put
        assert len(set(places[found].tolist())) == found.sum()
        for part, expected in zip(cache.rows(places[found]), rows_of(keys[found]), strict=True):
            assert np.array_equal(part, expected)
    assert cache.nbytes <= rows * ROW_NBYTES


@given(rows=st.integers(1, 40), before=KEYS, last=st.integers(0, 2**45))
def test_the_last_row_is_there(rows: int, before: list[int], last: int) -> None:
    cache = RowCache(WIDTHS, rows * ROW_NBYTES, 1000)
    for listed in (before, [last]):
        cache.put(np.array(listed, dtype=np.int64), rows_of(np.array(listed, dtype=np.int64)))
    assert cache.find(np.array([last]))[0] != ABSENT


def test_the_row_unused_for_longest_goes_first() -> None:
    cache = RowCache(WIDTHS, 3 * ROW_NBYTES, 1000)
    for key in (5, 6, 7):
        cache.put(np.array([key]), rows_of(np.array([key])))
    cache.find(np.array([5]))
    cache.put(np.array([8]), rows_of(np.array([8])))
    assert (cache.find(np.array([5, 6, 7, 8])) != ABSENT).tolist() == [True, False, True, True]


def test_more_rows_than_a_set_holds_leave_it_full() -> None:
    cache, keys = RowCache(WIDTHS, 8 * ROW_NBYTES, 1000), np.arange(50)
    cache.put(keys, rows_of(keys))
    assert (cache.find(keys) != ABSENT).sum() == cache.capacity == 8


@pytest.mark.parametrize("nbytes", [0, ROW_NBYTES - 1])
def test_a_budget_below_a_row_keeps_nothing(nbytes: int) -> None:
    cache, keys = RowCache(WIDTHS, nbytes, 1000), np.arange(3)
    cache.put(keys, rows_of(keys))
    assert cache.capacity == 0 and (cache.find(keys) == ABSENT).all()


def test_it_is_never_larger_than_all_rows_need() -> None:
    assert RowCache(WIDTHS, 1 << 40, 1000).capacity == 2000
