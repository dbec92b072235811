"""The last `window` keys of one layer, in Q8 (spec §5a). Slot = position mod window."""

from copy import copy

import torch
from jaxtyping import BFloat16, Int64
from torch import Tensor

from shoal.ops.quantize import Q8, Quantized


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
        self.settle()

    def read(self) -> BFloat16[Tensor, "held dim"]:
        """The rows of the last min(length, window) positions, ascending."""
        return self.rows[self._slots(max(0, self.length - self.window), self.length)].dequantize()

    def write(self, rows: Quantized) -> None:
        """Append the rows of the next positions; those that no longer fit are dropped at once."""
        start, count = self.length, rows.codes.shape[0]
        first = max(0, count - self.window)
        slots = self._slots(start + first, start + count)
        self._overwritten = self.rows[slots]
        self._write_start, self._first_saved = start, start + first
        self.rows.codes[slots], self.rows.scales[slots] = rows.codes[first:], rows.scales[first:]
        self.length = start + count

    def truncate(self, length: int) -> None:
        """Undo the last write from position `length` on: to its start, or anywhere in it if it fitted the window."""
        if length == self.length:
            return
        whole = length == self._write_start
        assert self._write_start <= length < self.length, (self._write_start, length, self.length)
        assert whole or self._first_saved == self._write_start, "a write longer than the window is undone whole"
        kept = max(0, length - self._first_saved)
        slots = self._slots(self._first_saved + kept, self.length)
        self.rows.codes[slots] = self._overwritten.codes[kept:]
        self.rows.scales[slots] = self._overwritten.scales[kept:]
        self._overwritten = self._overwritten[slice(0, kept)]
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
        """A copy that goes on alone. What was overwritten is shared: nobody writes to it."""
        other = copy(self)
        other.rows = Quantized(self.rows.codes.clone(), self.rows.scales.clone(), Q8)
        return other

    @property
    def nbytes(self) -> int:
        """Bytes held, those that undoing takes included."""
        return sum(rows.codes.nbytes + rows.scales.nbytes for rows in (self.rows, self._overwritten))

    def settle(self) -> None:
        """Make the last write final."""
        self._write_start = self._first_saved = self.length
        self._overwritten = self.rows[slice(0, 0)]

    def _slots(self, start: int, end: int) -> Int64[Tensor, "positions"]:
        return torch.arange(start, end) % self.window
