"""The last `window` keys of one layer, in Q8 (spec §5a). Slot = position mod window."""

from collections.abc import Callable
from copy import copy

import torch
from jaxtyping import BFloat16, Int64
from torch import Tensor

from shoal.ops.addresses import quantized_addresses
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.step_attention import Replaced, StepSequence, keep_rows, kept_slots


class WindowRing:
    """Written after attention, so a chunk reads the ring as it was before; the last write can be undone."""

    def __init__(self, window: int, dim: int) -> None:
        self.window = window
        self.rows = Quantized(
            torch.zeros((window, Q8.code_bytes(dim)), dtype=torch.uint8),
            torch.zeros((window, Q8.scale_bytes(dim)), dtype=torch.uint8),
            Q8,
        )
        self.length = 0
        self.addresses = quantized_addresses(self.rows)
        self._replaced: Callable[[], Replaced] | None = None
        self.settle()

    def read(self) -> BFloat16[Tensor, "held dim"]:
        """The rows of the last min(length, window) positions, ascending."""
        return self.rows[self._slots(max(0, self.length - self.window), self.length)].dequantize()

    def write(self, rows: Quantized) -> None:
        """Append the rows of the next positions; those that no longer fit are dropped at once."""
        one = StepSequence(rows.codes.shape[0], self.length, self.rows)
        replaced = Replaced(self.rows[kept_slots(one)], torch.ones(1, dtype=torch.uint8))
        self.expect(one.count, lambda: replaced, 0)
        keep_rows(one, rows)

    def expect(self, count: int, replaced: Callable[[], Replaced], row: int) -> None:
        """The next `count` positions are about to be written, what they replace to be in `replaced()` from `row` on.

        Said before it happens, so that whatever interrupts it can be undone.
        """
        start = self.length
        self._replaced, self._first_row = replaced, row
        self._write_start, self._first_saved = start, start + max(0, count - self.window)
        self.length = start + count

    def truncate(self, length: int) -> None:
        """Undo the last write from position `length` on: to its start, or anywhere in it if it fitted the window."""
        if length == self.length:
            return
        whole = length == self._write_start
        assert self._write_start <= length < self.length, (self._write_start, length, self.length)
        assert whole or self._first_saved == self._write_start, "a write longer than the window is undone whole"
        kept = max(length, self._first_saved)
        replaced = None if self._replaced is None else self._replaced()
        if replaced is not None and replaced.is_full:
            slots = self._slots(kept, self.length)
            saved = replaced.rows[slice(self._row(kept), self._row(self.length))]
            self.rows.codes[slots], self.rows.scales[slots] = saved.codes, saved.scales
        self.length = length

    def state(self) -> dict[str, Tensor]:
        """Copies of what must be saved."""
        return {"codes": self.rows.codes.clone(), "scales": self.rows.scales.clone()}

    def load(self, state: dict[str, Tensor], length: int) -> None:
        """Take over a saved state of a sequence of `length` tokens."""
        self.rows.codes.copy_(state["codes"])
        self.rows.scales.copy_(state["scales"])
        self.length = length
        self.settle()

    def fork(self) -> "WindowRing":
        """A copy that goes on alone. What was replaced is shared: nobody writes to it."""
        other = copy(self)
        other.rows = Quantized(self.rows.codes.clone(), self.rows.scales.clone(), Q8)
        other.addresses = quantized_addresses(other.rows)
        return other

    @property
    def nbytes(self) -> int:
        """Bytes held, those that undoing takes included."""
        row_nbytes = (self.rows.codes.nbytes + self.rows.scales.nbytes) // self.window
        return (self.window + max(0, self.length - self._first_saved)) * row_nbytes

    def settle(self) -> None:
        """Make the last write final."""
        self._write_start = self._first_saved = self.length
        self._replaced = None
        self._first_row = 0

    def _row(self, position: int) -> int:
        """Where what the row of `position` replaced is."""
        return self._first_row + position - self._first_saved

    def _slots(self, start: int, end: int) -> Int64[Tensor, "positions"]:
        return torch.arange(start, end) % self.window
