"""Which rows a store keeps, against a cache of plain lists."""

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.weights.engram_store import StoredEngramRows

Plans = tuple[LayerPlan, ...]
ROWS, LAYER = 3688, 1
PLACE_NBYTES = 16
ROW_NBYTES = 64 + 2 + PLACE_NBYTES
ASKED = st.lists(st.integers(0, 60) | st.integers(0, ROWS - 1), min_size=1, max_size=30)


@dataclass
class Twin:
    """Sets of up to eight places; a row takes the place that was used longest ago, unless in the same call."""

    rows: int
    time: int = 1
    sets: list[list[list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        ways = min(self.rows, 8)
        count = self.rows // 8 if self.rows >= 8 else min(self.rows, 1)
        self.sets = [[[-1, 0] for _ in range(ways)] for _ in range(count)]

    def gather(self, rows: set[int]) -> int:
        """How many of them are kept; the others are from now on."""
        self.time += 1
        missing = [row for row in sorted(rows) if not self._find(row)]
        self.time += 1
        for row in missing:
            places = self._set_of(row)
            oldest = min(places, key=lambda place: place[1], default=None)
            if not self._find(row) and oldest is not None and oldest[1] != self.time:
                oldest[:] = row, self.time
        return len(rows) - len(missing)

    def _find(self, row: int) -> bool:
        for place in self._set_of(row):
            if place[0] == row:
                place[1] = self.time
                return True
        return False

    def _set_of(self, row: int) -> list[list[int]]:
        mixed = (row * 0x9E37_79B9_7F4A_7C15 & (1 << 64) - 1) >> 32
        return self.sets[mixed * len(self.sets) >> 32] if self.sets else []


@settings(max_examples=40)
@given(room=st.integers(0, 40), steps=st.lists(ASKED, max_size=12))
def test_what_is_kept_is_what_was_used_last(
    miniature: Checkpoint, plans: Plans, room: int, steps: list[list[int]]
) -> None:
    store, twin, hits = StoredEngramRows(miniature, plans, room * ROW_NBYTES), Twin(room), 0
    for asked in steps:
        store.gather(LAYER, torch.tensor(asked))
        hits += twin.gather(set(asked))
        assert store.statistics.hits == hits
    assert store.cache_nbytes <= room * ROW_NBYTES
    store.close()


@pytest.mark.parametrize("nbytes", [0, ROW_NBYTES - 1])
def test_a_budget_below_a_row_keeps_nothing(miniature: Checkpoint, plans: Plans, nbytes: int) -> None:
    store = StoredEngramRows(miniature, plans, nbytes)
    for _ in range(2):
        store.gather(LAYER, torch.tensor([5]))
    assert (store.cache_nbytes, store.statistics.hits) == (0, 0)
    store.close()


def test_it_is_never_larger_than_all_rows_need(miniature: Checkpoint, plans: Plans) -> None:
    store = StoredEngramRows(miniature, plans, 1 << 40)
    store.gather(LAYER, torch.tensor([5]))
    every = sum(miniature.entry(f"{name}.weight").shape[0] for name in store.names.values())
    assert store.cache_nbytes == 2 * every // 8 * 8 * ROW_NBYTES
    store.close()
