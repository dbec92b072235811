"""Rows kept in memory within a budget of bytes, found by key.

A row's hash names a set of up to eight places; a new row takes the place of the set whose row was used longest ago.
Everything is arrays, so that a prompt's rows are looked up at once and a place costs what it holds and 16 bytes.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint8]

WAYS = 8
# Tag and time of last use.
PLACE_NBYTES = 16
ABSENT = -1
# 2^64 over the golden ratio: neighbouring keys go far apart.
MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15)


class RowCache:
    """Rows of several parts (`widths` bytes each) in at most `nbytes` bytes, and never more than `most_rows`."""

    def __init__(self, widths: Sequence[int], nbytes: int, most_rows: int) -> None:
        assert nbytes >= 0 and most_rows >= 0, (nbytes, most_rows)
        # The rows of a set that is full while others are not: twice the places would still miss a few.
        rows = min(nbytes // (sum(widths) + PLACE_NBYTES), 2 * most_rows)
        self.ways = min(rows, WAYS)
        self.sets = rows // WAYS if rows >= WAYS else min(rows, 1)
        shape = self.sets, self.ways
        # Zeros cost no memory until they are written.
        self._tags = np.zeros(shape, dtype=np.int64)
        self._used = np.zeros(shape, dtype=np.int64)
        self._parts = [np.zeros((self.capacity, width), dtype=np.uint8) for width in widths]
        self._time = 0

    @property
    def capacity(self) -> int:
        """How many rows fit."""
        return self.sets * self.ways

    @property
    def nbytes(self) -> int:
        """What it takes when it is full."""
        return self._tags.nbytes + self._used.nbytes + sum(part.nbytes for part in self._parts)

    def find(self, keys: Ids) -> Ids:
        """The place of each key (0 or more), `ABSENT` where it is not kept. What is found counts as used now."""
        if not self.capacity or not len(keys):
            return np.full(len(keys), ABSENT, dtype=np.int64)
        sets = self._sets_of(keys)
        same = self._tags[sets] == (keys + 1)[:, None]
        way = same.argmax(1)
        found = same[np.arange(len(keys)), way]
        self._time += 1
        self._used[sets[found], way[found]] = self._time
        return np.where(found, sets * self.ways + way, ABSENT)

    def rows(self, places: Ids) -> list[Rows]:
        """Copies of what is kept at `places`, a part each: [places, width]."""
        return [part[places] for part in self._parts]

    def put(self, keys: Ids, parts: Sequence[Rows]) -> None:
        """Keep the rows of distinct `keys`; those that are kept already stay as they are."""
        new = np.flatnonzero(self.find(keys) == ABSENT)
        if not self.capacity or not len(new):
            return
        self._time += 1
        sets = self._sets_of(keys[new])
        order = np.argsort(sets, kind="stable")
        rank = _ranks(sets[order])
        # One row a set and round; of more rows than a set has places the first are kept.
        for turn in range(min(int(rank.max()) + 1, self.ways)):
            chosen = order[rank == turn]
            self._place(sets[chosen], keys[new[chosen]], [part[new[chosen]] for part in parts])

    def _place(self, sets: Ids, keys: Ids, parts: Sequence[Rows]) -> None:
        way = self._used[sets].argmin(1)
        self._tags[sets, way] = keys + 1
        self._used[sets, way] = self._time
        for kept, given in zip(self._parts, parts, strict=True):
            kept[sets * self.ways + way] = given

    def _sets_of(self, keys: Ids) -> Ids:
        mixed = (keys.astype(np.uint64) * MULTIPLIER) >> np.uint64(32)
        return ((mixed * np.uint64(self.sets)) >> np.uint64(32)).astype(np.int64)


def _ranks(ascending: Ids) -> Ids:
    """How many equal numbers stand before each."""
    places = np.arange(len(ascending))
    starts = np.r_[True, ascending[1:] != ascending[:-1]]
    return places - np.maximum.accumulate(np.where(starts, places, 0))
