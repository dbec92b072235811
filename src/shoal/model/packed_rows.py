"""An append-only list of rows in FP4: compressed entries or index keys of one KV source (spec §5b)."""

import torch
from jaxtyping import BFloat16, Int64
from torch import Tensor

from shoal.model.page_pool import Page
from shoal.model.page_table import PageTable
from shoal.ops.paged_rows import Place
from shoal.ops.quantize import BlockFormat, Quantized
from shoal.plan.page_layout import PageRows


class PackedRows:
    """Rows in `format`, in their `part` of every page of `table`; the newest can be dropped.

    Pages belong to the table: dropping rows gives none back.
    """

    def __init__(self, format: BlockFormat, part: PageRows, table: PageTable) -> None:
        self.format, self.part, self.table = format, part, table
        self.dim, self.count = part.dim, 0
        self._memory: Page | None = None
        self._rows: Quantized | None = None  # of the page that was written last, which `_memory` is

    def append(self, rows: Quantized) -> None:
        """Add rows at the end. Raises `CacheFullError` when there is no page for one of them."""
        done, wanted = 0, rows.codes.shape[0]
        while done < wanted:
            number, start = divmod(self.count, self.part.rows)
            count = min(wanted - done, self.part.rows - start)
            page = self._writable(number)
            page.codes[start : start + count] = rows.codes[done : done + count]
            page.scales[start : start + count] = rows.scales[done : done + count]
            self.count, done = self.count + count, done + count

    def read(self, positions: Int64[Tensor, "wanted"] | None = None) -> BFloat16[Tensor, "rows dim"]:
        """The rows at `positions`, or all of them."""
        return (self.packed() if positions is None else self[positions]).dequantize()

    def truncate(self, count: int) -> None:
        """Drop all rows from `count` on."""
        self.count = min(self.count, count)

    def place(self) -> Place:
        """Where the kernels find the rows, until the next is appended."""
        return Place(self.table.addresses, self.part.codes_at, self.part.scales_at, self.part.shift)

    def page(self, number: int) -> Quantized:
        """The rows of page `number` where they lie, those that are not written yet included."""
        return self._rows_of(self.table.memory[number])

    def packed(self) -> Quantized:
        """Copies of all rows as they are stored."""
        pages = [self.page(number) for number in range(-(-self.count // self.part.rows))]
        codes, scales = [page.codes for page in pages], [page.scales for page in pages]
        empty = torch.zeros((0, self.part.code_nbytes + self.part.scale_nbytes), dtype=torch.uint8)
        codes.append(empty[:, : self.part.code_nbytes])
        scales.append(empty[:, self.part.code_nbytes :])
        return Quantized(torch.cat(codes)[: self.count], torch.cat(scales)[: self.count], self.format)

    def __getitem__(self, positions: Int64[Tensor, "wanted"]) -> Quantized:
        """Copies of the rows at `positions`."""
        return self.packed()[positions]

    def dequantize(self) -> BFloat16[Tensor, "rows dim"]:
        """All rows."""
        return self.read()

    def state(self) -> dict[str, Tensor]:
        """Copies of what must be saved."""
        held = self.packed()
        return {"codes": held.codes, "scales": held.scales}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state."""
        self.count = 0
        self.append(Quantized(state["codes"], state["scales"], self.format))

    def fork(self, table: PageTable) -> "PackedRows":
        """The same rows in a fork of their table."""
        other = PackedRows(self.format, self.part, table)
        other.count = self.count
        return other

    def _writable(self, number: int) -> Quantized:
        memory = self.table.writable(number)
        if self._rows is None or self._memory is not memory:
            self._memory, self._rows = memory, self._rows_of(memory)
        return self._rows

    def _rows_of(self, memory: Page) -> Quantized:
        part = self.part
        codes = memory[part.codes_at : part.codes_at + part.rows * part.code_nbytes]
        scales = memory[part.scales_at : part.scales_at + part.rows * part.scale_nbytes]
        return Quantized(
            codes.view(part.rows, part.code_nbytes), scales.view(part.rows, part.scale_nbytes), self.format
        )
