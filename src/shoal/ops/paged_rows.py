"""Rows of a sequence as they lie in pages of memory, and where the kernels find them (spec §5b)."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import BFloat16, Int64
from torch import Tensor

from shoal.ops.quantize import BlockFormat, Quantized

ONE_PAGE = 63
"""The shift of rows that lie end to end: whichever row, its page is the first."""


@dataclass(frozen=True)
class Place:
    """Row r is row r mod 2^shift of the page at addresses[r >> shift], whose rows start `codes` and `scales` bytes in.

    Whoever holds a place keeps the pages alive; `copies` are those of rows that had to be copied.
    """

    addresses: Int64[Tensor, "pages"]
    codes: int
    scales: int
    shift: int
    copies: tuple[Tensor, ...] = ()


@runtime_checkable
class PagedRows(Protocol):
    """`count` rows of `dim` values that are read where they lie; sequences may share them."""

    format: BlockFormat
    dim: int
    count: int

    def place(self) -> Place:
        """Where the rows are, until the next one is appended."""
        ...

    def dequantize(self) -> BFloat16[Tensor, "rows dim"]:
        """All rows."""
        ...

    def __getitem__(self, positions: Int64[Tensor, "wanted"]) -> Quantized:
        """Copies of the rows at `positions`."""
        ...


def place_of(rows: Quantized | PagedRows, format: BlockFormat, dim: int) -> Place:
    """Where rows of `dim` values in `format` lie, those of a tensor end to end."""
    assert rows.format is format, (rows.format.name, format.name)
    if not isinstance(rows, Quantized):
        assert rows.dim == dim, (rows.dim, dim)
        return rows.place()
    codes, scales = rows.codes.contiguous(), rows.scales.contiguous()
    count, start = codes.shape[0], codes.data_ptr()
    assert codes.shape == (count, format.code_bytes(dim)), (codes.shape, dim)
    assert scales.shape == (count, format.scale_bytes(dim)), (scales.shape, count, dim)
    return Place(torch.tensor([start]), 0, (scales.data_ptr() - start) % 2**64, ONE_PAGE, (codes, scales))


def num_rows(rows: Quantized | PagedRows) -> int:
    """How many rows there are."""
    return rows.codes.shape[0] if isinstance(rows, Quantized) else rows.count
