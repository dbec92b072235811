"""Packed rows in small pages against a list."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from miniature import MINI
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.errors import CacheFullError
from shoal.model.packed_rows import PackedRows
from shoal.model.page_pool import PagePool
from shoal.model.page_table import PageTable
from shoal.ops.quantize import Q4C, Q4I, BlockFormat, Quantized

CONFIG = load_config(MINI)
DIM, LAYER, TOKENS = CONFIG.head_dim, 2, 8
Rows = Callable[[BlockFormat, int, range], Quantized]


def empty(pages: int | None = None, format: BlockFormat = Q4C) -> PackedRows:
    """Entries, or keys, of layer 2, four of which fit a page."""
    pool = PagePool(CONFIG, plan_layers(CONFIG), pages=pages, page_tokens=TOKENS)
    parts = pool.layout.entries if format is Q4C else pool.layout.index_keys
    return PackedRows(format, parts[LAYER], PageTable(pool))


def rows(numbers: list[int]) -> Quantized:
    codes = torch.tensor(numbers, dtype=torch.uint8)[:, None].repeat(1, DIM // 2)
    return Quantized(codes, torch.full((len(numbers), DIM // 16), 0x38, dtype=torch.uint8), Q4C)


class PackedMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rows, self.twin, self.written = empty(), list[int](), 0

    @rule(count=st.integers(0, 32), taken_back=st.integers(0, 16))
    def append_and_drop(self, count: int, taken_back: int) -> None:
        fresh = [(self.written + i) % 256 for i in range(count)]
        self.written += count
        self.rows.append(rows(fresh))
        self.twin += fresh
        left = max(0, len(self.twin) - taken_back)
        self.rows.truncate(left)
        self.twin = self.twin[:left]

    @rule()
    def save_and_restore(self) -> None:
        restored = empty()
        restored.load(self.rows.state())
        self.rows = restored

    @rule()
    def go_on_in_a_fork(self) -> None:
        self.rows = self.rows.fork(self.rows.table.fork())

    @rule(data=st.data())
    def read_some(self, data: st.DataObject) -> None:
        wanted = data.draw(st.lists(st.integers(0, len(self.twin) - 1), max_size=5)) if self.twin else []
        found = self.rows.read(torch.tensor(wanted, dtype=torch.int64))
        assert torch.equal(found, rows([self.twin[i] for i in wanted]).dequantize())

    @invariant()
    def all_rows_are_held_in_order(self) -> None:
        assert self.rows.count == len(self.twin)
        assert torch.equal(self.rows.read(), rows(self.twin).dequantize())


PackedMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=12)
TestPacked = PackedMachine.TestCase


@pytest.mark.parametrize("format", [Q4C, Q4I], ids=["entries", "index keys"])
def test_bytes_are_kept_as_they_came(format: BlockFormat, coded_rows: Rows) -> None:
    packed = empty(format=format)
    stored = coded_rows(format, packed.dim, range(40))
    packed.append(stored[slice(0, 3)])
    packed.append(stored[slice(3, 40)])
    assert torch.equal(packed.state()["codes"], stored.codes)
    assert torch.equal(packed.state()["scales"], stored.scales)


def test_a_page_holds_as_many_rows_as_its_tokens_give() -> None:
    packed = empty()
    packed.append(rows(list(range(5))))
    assert packed.part.rows == 4 and len(packed.table.ids) == 2
    assert packed.page(1).codes[0].eq(4).all()


def test_rows_beyond_the_last_page_are_refused() -> None:
    packed = empty(pages=2)
    packed.append(rows(list(range(8))))
    with pytest.raises(CacheFullError):
        packed.append(rows([8]))
    assert torch.equal(packed.read(), rows(list(range(8))).dequantize())


def test_a_saved_state_does_not_change_with_the_rows() -> None:
    packed = empty()
    packed.append(rows([1]))
    saved = packed.state()
    packed.truncate(0)
    packed.append(rows([2]))
    assert torch.equal(saved["codes"], rows([1]).codes)
