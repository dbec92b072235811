"""One expert applied to some rows: SwiGLU with clamps between two quantised products (spec §4.6)."""

import torch
from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.quantize import Quantized
from shoal.ops.weights import BlockScaledWeight


def swiglu(
    gate: BFloat16[Tensor, "rows inter"],
    up: BFloat16[Tensor, "rows inter"],
    weights: Float32[Tensor, "rows"] | None,
    limit: float,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "rows inter"]:
    """bf16(w·silu(min(g, limit))·clamp(u, ±limit)): the gate is clamped above only; limit 0 clamps nothing.

    The router's weight multiplies before the second product, not after.
    """
    g, u = gate.float(), up.float()
    if limit > 0:
        g, u = g.clamp_max(limit), u.clamp(-limit, limit)
    product = arithmetic.silu(g) * u
    return (product if weights is None else weights[:, None] * product).to(torch.bfloat16)


def apply_expert(
    x: Quantized,
    w1: BlockScaledWeight,
    w2: BlockScaledWeight,
    w3: BlockScaledWeight,
    weights: Float32[Tensor, "rows"] | None,
    limit: float,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "rows dim"]:
    """w2·swiglu(w1·x, w3·x), each product of a Q8 input and rounded to bf16."""
    gate, up = arithmetic.quantized_linear(x, w1), arithmetic.quantized_linear(x, w3)
    return arithmetic.quantized_linear(arithmetic.quantize_q8(swiglu(gate, up, weights, limit, arithmetic)), w2)
