"""RMSNorm in one rounding (spec §4)."""

import pytest
import torch

from shoal.ops.rms_norm import rms_norm
from shoal.ops.wide import Wide

W = Wide()


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def test_it_is_the_equation_rounded_once() -> None:
    x, weight = random(7, 96), random(96, seed=2)
    wanted = weight.double() * (x.double() * (x.double().square().mean(-1, keepdim=True) + 1e-20).rsqrt())
    found = rms_norm(x, weight, 1e-20, W)
    # Half a unit of bf16 and a few float32 roundings.
    assert ((found.double() - wanted).abs() <= wanted.abs() * (2.0**-8 + 2.0**-21)).all()


def test_a_zero_row_stays_zero() -> None:
    found = rms_norm(torch.zeros(2, 32, dtype=torch.bfloat16), random(32), 1e-20, W)
    assert not found.any() and found.isfinite().all()


def test_the_weight_multiplies_without_a_one_added() -> None:
    assert not rms_norm(random(2, 32), torch.zeros(32, dtype=torch.bfloat16), 1e-20, W).any()


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_a_power_of_two_in_the_input_cancels(scale: float) -> None:
    x, weight = random(3, 32), random(32, seed=2)
    assert torch.equal(rms_norm(x * scale, weight, 0.0, W), rms_norm(x, weight, 0.0, W))


def test_a_row_has_the_same_bits_in_any_batch() -> None:
    x, weight = random(2, 5, 96), random(96, seed=2)
    whole = rms_norm(x, weight, 1e-20, W)
    assert torch.equal(rms_norm(x[1, 3], weight, 1e-20, W), whole[1, 3])
