"""The roundings of training are those of the engine's quantisers and stored formats."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from shoal.formats.float8 import E4M3_MAX
from shoal.ops.quantize import Quantized, quantize_q4c, quantize_q4i, quantize_q8_torch
from training import fake_quantize as fq


def values(seed: int = 0) -> Tensor:
    """Rows of many magnitudes, as bfloat16 holds them; a row of zeros, one of tiny values."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(300, 64, generator=generator) * torch.exp(2 * torch.randn(300, 1, generator=generator))
    x[0], x[1] = 0.0, x[1] * 1e-9
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(torch.bfloat16).float()


@pytest.mark.parametrize(
    ("rounding", "quantize"), [(fq.q8, quantize_q8_torch), (fq.q4i, quantize_q4i), (fq.q4c, quantize_q4c)]
)
def test_an_activation_is_rounded_as_the_engine_stores_it(
    rounding: Callable[[Tensor], Tensor], quantize: Callable[[Tensor], Quantized]
) -> None:
    x = values()
    assert torch.equal(rounding(x), quantize(x.to(torch.bfloat16)).dequantize().float())


def test_bfloat16_is_rounded_from_bits_as_torch_rounds_it() -> None:
    x = torch.randn(10_000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(fq.bfloat16(x), x.to(torch.bfloat16).float())


@pytest.mark.parametrize("rounding", [fq.e4m3_tiles, fq.e4m3_rows, fq.e2m1_rows, fq.q8, fq.bfloat16])
def test_what_is_stored_is_stored_again_as_it_is(rounding: Callable[[Tensor], Tensor]) -> None:
    once = rounding(values()[:96])
    assert torch.equal(rounding(once), once)


@pytest.mark.parametrize("rounding", [fq.q8, fq.q4i, fq.q4c, fq.e4m3_tiles, fq.e2m1_rows, fq.bfloat16])
def test_the_gradient_passes_straight_through(rounding: Callable[[Tensor], Tensor]) -> None:
    x = values()[:96].requires_grad_()
    weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    (rounding(x) * weights).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, weights)
