"""SwiGLU's clamps and weight, and the three products around it (spec §4.6)."""

import pytest
import torch

from shoal.ops.expert import apply_expert, swiglu
from shoal.ops.quantize import quantize_q8_torch
from shoal.ops.weights import Float4Weight, dequantize_weight
from shoal.ops.wide import Wide

W = Wide()


def bf16(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.bfloat16)


def silu(value: float) -> float:
    x = torch.tensor(value, dtype=torch.float64)
    return float(x / (1 + (-x).exp()))


def test_the_gate_is_clamped_above_only_and_up_on_both_sides() -> None:
    found = swiglu(bf16(100, 100, -100, 1), bf16(50, -50, 3, 0.5), None, 10.0, W)[0].tolist()
    wanted = [silu(10) * 10, -silu(10) * 10, silu(-100) * 3, silu(1) * 0.5]
    assert found == pytest.approx(wanted, rel=2**-8, abs=1e-30)


def test_a_limit_of_zero_clamps_nothing() -> None:
    found = swiglu(bf16(100, 4), bf16(50, -200), None, 0.0, W)[0].tolist()
    assert found == pytest.approx([5000, silu(4) * -200], rel=2**-8)


def test_the_weight_multiplies_before_the_rounding() -> None:
    gate, up = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    weights = torch.tensor([0.1, 0.3, 0.7, 1.1, 1.5])
    exact = swiglu_exact(gate, up) * weights[:, None].double()
    found = swiglu(gate, up, weights, 10.0, W)
    assert torch.equal(found, exact.float().to(torch.bfloat16))
    twice = swiglu(gate, up, None, 10.0, W).float() * weights[:, None]
    assert not torch.equal(found, twice.to(torch.bfloat16))


def swiglu_exact(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    g, u = gate.double().clamp_max(10), up.double().clamp(-10, 10)
    return g / (1 + (-g).exp()) * u


def test_an_expert_is_its_three_products() -> None:
    generator = torch.Generator().manual_seed(2)

    def matrix(rows: int, columns: int) -> Float4Weight:
        codes = torch.randint(0, 256, (rows, columns // 2), generator=generator, dtype=torch.uint8)
        return Float4Weight(codes, torch.full((rows, columns // 32), 122, dtype=torch.uint8))

    w1, w2, w3 = matrix(64, 96), matrix(96, 64), matrix(64, 96)
    x = quantize_q8_torch(torch.randn(4, 96, generator=generator).to(torch.bfloat16))
    weights = torch.tensor([0.2, 0.4, 0.8, 1.6])
    g, u = (x.dequantize().double() @ dequantize_weight(w).double().T for w in (w1, w3))
    hidden = swiglu_exact(g.to(torch.bfloat16), u.to(torch.bfloat16)) * weights[:, None]
    hidden = quantize_q8_torch(hidden.to(torch.bfloat16)).dequantize().double()
    wanted = hidden @ dequantize_weight(w2).double().T
    found = apply_expert(x, w1, w2, w3, weights, 10.0, W).double()
    # The same roundings in the same places, but for values on the edge of one.
    assert (found - wanted).norm() / wanted.norm() < 2**-8
