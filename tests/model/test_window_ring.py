"""The window ring against a list that keeps everything."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shoal.model.window_ring import WindowRing
from shoal.ops.quantize import Q8, BlockFormat, Quantized

WINDOW, DIM = 5, 32
Rows = Callable[[BlockFormat, int, range], Quantized]


def rows(numbers: list[int]) -> Quantized:
    codes = torch.tensor(numbers, dtype=torch.uint8)[:, None].repeat(1, DIM)
    return Quantized(codes, torch.full((len(numbers), 1), 127, dtype=torch.uint8), Q8)


def values(numbers: list[int]) -> torch.Tensor:
    return rows(numbers).dequantize()


# How many tokens each of up to two cuts takes back. In the same rule as the pass: runs that draw only one
# of two rules are common, and would never cut what they wrote.
CUTS = st.lists(st.integers(0, 6), max_size=2)


class RingMachine(RuleBasedStateMachine):
    """The twin is the list of all positions' rows; every write brings rows never seen before."""

    def __init__(self) -> None:
        super().__init__()
        self.ring, self.twin = WindowRing(WINDOW, DIM), list[int]()
        self.written = 0

    @rule(count=st.integers(0, 2 * WINDOW + 1), cuts=CUTS)
    def write_and_cut(self, count: int, cuts: list[int]) -> None:
        fresh = [(self.written + i) % 0x7F for i in range(count)]
        self.written += count
        start = len(self.twin)
        self.twin += fresh
        self.ring.write(rows(fresh))
        for taken_back in cuts:
            length = max(start, len(self.twin) - taken_back)
            if count > WINDOW and taken_back:
                length = start
            self.ring.truncate(length)
            self.twin = self.twin[:length]
            self.the_last_positions_are_held_in_order()

    @precondition(lambda self: self.twin)
    @rule()
    def save_and_restore(self) -> None:
        restored = WindowRing(WINDOW, DIM)
        restored.load(self.ring.state(), len(self.twin))
        self.ring = restored

    @invariant()
    def the_last_positions_are_held_in_order(self) -> None:
        assert self.ring.length == len(self.twin)
        assert torch.equal(self.ring.read(), values(self.twin[-WINDOW:]))


RingMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=15)
TestRing = RingMachine.TestCase


def test_a_position_sits_in_its_slot(coded_rows: Rows) -> None:
    ring = WindowRing(WINDOW, DIM)
    written = coded_rows(Q8, DIM, range(7))
    ring.write(written)
    assert torch.equal(ring.rows.codes[[5 % WINDOW, 6 % WINDOW, 4]], written.codes[[5, 6, 4]])


def test_a_new_ring_holds_nothing() -> None:
    assert WindowRing(WINDOW, DIM).read().shape == (0, DIM)


def test_a_write_longer_than_the_window_is_not_cut_inside() -> None:
    ring = WindowRing(WINDOW, DIM)
    ring.write(rows(list(range(6))))
    with pytest.raises(AssertionError, match="longer than the window"):
        ring.truncate(3)


def test_an_earlier_write_is_not_undone() -> None:
    ring = WindowRing(WINDOW, DIM)
    ring.write(rows([1, 2]))
    ring.write(rows([3]))
    with pytest.raises(AssertionError):
        ring.truncate(1)


def test_a_saved_state_does_not_change_with_the_ring() -> None:
    ring = WindowRing(WINDOW, DIM)
    ring.write(rows([1, 2]))
    saved = ring.state()
    ring.write(rows([3, 4, 5, 6]))
    restored = WindowRing(WINDOW, DIM)
    restored.load(saved, 2)
    assert torch.equal(restored.read(), values([1, 2]))
