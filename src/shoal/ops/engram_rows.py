"""Engram rows from a table to the projection that reads them (spec §6.3)."""

from jaxtyping import Int64
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.quantize import Quantized


def gather_rows(table: Quantized, row_ids: Int64[Tensor, "rows"] | None, arithmetic: Arithmetic) -> Quantized:
    """Q8 of the table's rows, dequantised to bf16; all of them in order where there are no ids.

    The table has Q8's layout with the checkpoint's own scales. Q8 takes the smallest scale that holds a group, and none
    below its floor, so codes may change where values do not, and values where they are tiny. The rows hold no NaN.
    """
    if arithmetic.kernels is not None:
        return arithmetic.kernels.gather_rows(table, row_ids)
    return gather_rows_torch(table, row_ids, arithmetic)


def gather_rows_torch(table: Quantized, row_ids: Int64[Tensor, "rows"] | None, arithmetic: Arithmetic) -> Quantized:
    """The formula; the kernel gives its bytes."""
    rows = table if row_ids is None else table[row_ids]
    return arithmetic.quantize_q8(rows.dequantize())
