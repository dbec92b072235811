"""Engram rows get Q8 (spec §6.3)."""

import torch

from shoal.ops.engram_rows import gather_rows
from shoal.ops.quantize import Q8, Quantized, quantize_q8_torch
from shoal.ops.wide import Wide


def table_of(*rows: torch.Tensor) -> Quantized:
    return quantize_q8_torch(torch.stack(rows).to(torch.bfloat16))


def test_rows_come_in_the_order_asked_for_repeats_allowed() -> None:
    table = table_of(*torch.randn(5, 64, generator=torch.Generator().manual_seed(1)))
    found = gather_rows(table, torch.tensor([3, 0, 3]), Wide())
    assert torch.equal(found.dequantize(), table.dequantize()[[3, 0, 3]])


def test_a_scale_too_large_becomes_q8s_own_and_the_values_stay() -> None:
    table = table_of(torch.arange(32.0))
    # Half the codes' exponents, twice the scale.
    coarse = Quantized(torch.where(table.codes >= 16, table.codes - 8, 0).to(torch.uint8), table.scales + 1, Q8)
    found = gather_rows(coarse, None, Wide())
    assert torch.equal(found.scales, table.scales)
    assert torch.equal(found.dequantize(), coarse.dequantize())


def test_a_tiny_group_gets_the_smallest_scale_of_q8() -> None:
    tiny = Quantized(torch.full((1, 32), 0x38, dtype=torch.uint8), torch.full((1, 1), 80, dtype=torch.uint8), Q8)
    found = gather_rows(tiny, None, Wide())
    assert found.scales.tolist() == quantize_q8_torch(torch.zeros(1, 32, dtype=torch.bfloat16)).scales.tolist()
    assert not found.dequantize().any()
