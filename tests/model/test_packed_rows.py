"""Packed rows against a list."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shoal.model.packed_rows import SMALLEST_CAPACITY, PackedRows
from shoal.ops.quantize import Q4C, Q4I, BlockFormat, Quantized

DIM = 32
Rows = Callable[[BlockFormat, int, range], Quantized]


def rows(numbers: list[int]) -> Quantized:
    codes = torch.tensor(numbers, dtype=torch.uint8)[:, None].repeat(1, DIM // 2)
    return Quantized(codes, torch.full((len(numbers), 2), 0x38, dtype=torch.uint8), Q4C)


class PackedMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rows, self.twin, self.written = PackedRows(Q4C, DIM), list[int](), 0

    @rule(count=st.integers(0, 2 * SMALLEST_CAPACITY), taken_back=st.integers(0, SMALLEST_CAPACITY))
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
        restored = PackedRows(Q4C, DIM)
        restored.load(self.rows.state())
        self.rows = restored

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
    stored, packed = coded_rows(format, 64, range(40)), PackedRows(format, 64)
    packed.append(stored[slice(0, 3)])
    packed.append(stored[slice(3, 40)])
    assert torch.equal(packed.state()["codes"], stored.codes)
    assert torch.equal(packed.state()["scales"], stored.scales)


def test_room_doubles() -> None:
    packed = PackedRows(Q4C, DIM)
    packed.append(rows(list(range(SMALLEST_CAPACITY + 1))))
    assert packed.room.codes.shape[0] == 2 * SMALLEST_CAPACITY


def test_a_saved_state_does_not_change_with_the_rows() -> None:
    packed = PackedRows(Q4C, DIM)
    packed.append(rows([1]))
    saved = packed.state()
    packed.truncate(0)
    packed.append(rows([2]))
    assert torch.equal(saved["codes"], rows([1]).codes)
