"""Operands of cases."""

import torch

from shoal.bench.workbench import Workbench
from shoal.formats.float8 import E4M3_NAN, decode_e4m3


def test_float8_weights_hold_no_nan(bench: Workbench) -> None:
    weight = bench.float8(1000, 320)
    assert weight.codes.shape == (1000, 320)
    assert weight.scales.shape == (32, 10)
    assert not bool(((weight.codes & E4M3_NAN) == E4M3_NAN).any())
    assert bool(decode_e4m3(weight.codes).isfinite().all())


def test_a_pattern_fills_all_of_a_large_matrix(bench: Workbench) -> None:
    weight = bench.bfloat16(7000, 2600)
    assert weight.dtype == torch.bfloat16
    assert weight.shape == (7000, 2600)
    assert bool((weight[-1] != 0).any())
    assert float(weight.float().std()) < 0.1
