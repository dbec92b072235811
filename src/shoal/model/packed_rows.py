"""An append-only list of rows in FP4: compressed entries or index keys of one KV source (spec §5b)."""

import torch
from jaxtyping import BFloat16, Int64
from torch import Tensor

from shoal.ops.quantize import BlockFormat, Quantized

SMALLEST_CAPACITY = 16


class PackedRows:
    """Rows of `dim` values in `format`; the newest can be dropped. Beyond `capacity`, room grows by doubling."""

    def __init__(self, format: BlockFormat, dim: int, capacity: int = 0) -> None:
        self.format = format
        self.dim = dim
        self.count = 0
        self.room = self._allocate(max(capacity, SMALLEST_CAPACITY))

    def append(self, rows: Quantized) -> None:
        """Add rows at the end."""
        end = self.count + rows.codes.shape[0]
        if end > self.room.codes.shape[0]:
            larger = self._allocate(max(end, 2 * self.room.codes.shape[0]))
            larger.codes[: self.count] = self.room.codes[: self.count]
            larger.scales[: self.count] = self.room.scales[: self.count]
            self.room = larger
        self.room.codes[self.count : end], self.room.scales[self.count : end] = rows.codes, rows.scales
        self.count = end

    def read(self, positions: Int64[Tensor, "wanted"] | None = None) -> BFloat16[Tensor, "rows dim"]:
        """The rows at `positions`, or all of them."""
        return self.room[slice(0, self.count) if positions is None else positions].dequantize()

    def packed(self) -> Quantized:
        """All rows as they are stored, to be read before the next append."""
        return self.room[slice(0, self.count)]

    def truncate(self, count: int) -> None:
        """Drop all rows from `count` on."""
        self.count = min(self.count, count)

    def state(self) -> dict[str, Tensor]:
        """Copies of what must be saved."""
        held = self.room[slice(0, self.count)]
        return {"codes": held.codes.clone(), "scales": held.scales.clone()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state."""
        self.count = 0
        self.append(Quantized(state["codes"], state["scales"], self.format))

    def _allocate(self, capacity: int) -> Quantized:
        return Quantized(
            torch.zeros((capacity, self.format.code_bytes(self.dim)), dtype=torch.uint8),
            torch.zeros((capacity, self.format.scale_bytes(self.dim)), dtype=torch.uint8),
            self.format,
        )
