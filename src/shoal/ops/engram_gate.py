"""Engram's gate: how much of a memory's value each stream takes (spec §6.3)."""

import torch
from jaxtyping import BFloat16, Bool, Float32
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic

SMALLEST_DOT = 1e-6


def gate_streams(
    streams: BFloat16[Tensor, "tokens streams dim"],
    key: BFloat16[Tensor, "tokens streams dim"],
    value: BFloat16[Tensor, "tokens dim"],
    q_weight: BFloat16[Tensor, "streams dim"],
    k_weight: BFloat16[Tensor, "streams dim"],
    image_mask: Bool[Tensor, "tokens"] | None,
    eps: float,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens streams dim"]:
    """h + σ(sign(dot)·√max(|dot|, 1e-6))·value, dot the scaled product of the normed stream and key.

    The gate of an image row is zero. There is no residual scaling.
    """
    if arithmetic.kernels is not None:
        projected = torch.cat((key.flatten(1), value), dim=1)
        return arithmetic.kernels.engram_gate(streams, projected, q_weight, k_weight, image_mask, eps)
    return gate_streams_torch(streams, key, value, q_weight, k_weight, image_mask, eps, arithmetic)


def gate_streams_torch(
    streams: BFloat16[Tensor, "tokens streams dim"],
    key: BFloat16[Tensor, "tokens streams dim"],
    value: BFloat16[Tensor, "tokens dim"],
    q_weight: BFloat16[Tensor, "streams dim"],
    k_weight: BFloat16[Tensor, "streams dim"],
    image_mask: Bool[Tensor, "tokens"] | None,
    eps: float,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens streams dim"]:
    """The formula, its three sums in the arithmetic's accumulator; the kernel's are in sixteen float32 lanes."""
    gate = _gate(streams.float(), key.float(), q_weight.float() * k_weight.float(), eps, arithmetic)
    if image_mask is not None:
        gate = gate.masked_fill(image_mask[:, None], 0.0)
    return (streams.float() + gate[..., None] * value.float()[:, None]).to(torch.bfloat16)


def _gate(
    h: Float32[Tensor, "tokens streams dim"],
    key: Float32[Tensor, "tokens streams dim"],
    weight: Float32[Tensor, "streams dim"],
    eps: float,
    arithmetic: Arithmetic,
) -> Float32[Tensor, "tokens streams"]:
    dot = arithmetic.total(h * weight * key).float()
    dot = dot * arithmetic.rsqrt(arithmetic.mean_square(h) + eps)[..., 0]
    dot = dot * arithmetic.rsqrt(arithmetic.mean_square(key) + eps)[..., 0]
    dot = dot * h.shape[-1] ** -0.5
    return arithmetic.sigmoid(torch.copysign(arithmetic.sqrt(dot.abs().clamp_min(SMALLEST_DOT)), dot))
