"""Single-pass hyper-connections: mixing the residual streams (spec §4.1)."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.quantize import Quantized
from shoal.ops.rms_norm import rms_norm


@dataclass(frozen=True)
class Mix:
    """The coefficients of one sublayer: `pre` collapses, `post` and `comb` expand; comb[j, c] feeds stream j to c."""

    pre: Float32[Tensor, "tokens streams"]
    post: Float32[Tensor, "tokens streams"]
    comb: Float32[Tensor, "tokens streams streams"]


def ordered_sum(x: Float32[Tensor, "*shape"], axis: int) -> Float32[Tensor, "*rest"]:
    """Σ along a short axis from the left, float32, without fma: the order the goldens were made with."""
    members = x.unbind(axis)
    total = members[0]
    for member in members[1:]:
        total = total + member
    return total


def split_mix(
    u: Float32[Tensor, "tokens coefficients"],
    scale: Float32[Tensor, "3"],
    base: Float32[Tensor, "coefficients"],
    streams: int,
    iterations: int,
    eps: float,
    arithmetic: Arithmetic,
) -> Mix:
    """The coefficients that u projects to, by the kernel where there is one."""
    if arithmetic.kernels is not None:
        return Mix(*arithmetic.kernels.split_mix(u, None, scale, base, streams, iterations, eps, 0.0))
    return split_mix_torch(u, scale, base, streams, iterations, eps, arithmetic)


def split_mix_torch(
    u: Float32[Tensor, "tokens coefficients"],
    scale: Float32[Tensor, "3"],
    base: Float32[Tensor, "coefficients"],
    streams: int,
    iterations: int,
    eps: float,
    arithmetic: Arithmetic,
) -> Mix:
    """pre = σ(·) + ε; post = 2σ(·); comb by Sinkhorn: `iterations` row and column divisions, ending on columns."""
    pre = arithmetic.sigmoid(u[:, :streams] * scale[0] + base[:streams]) + eps
    post = 2 * arithmetic.sigmoid(u[:, streams : 2 * streams] * scale[1] + base[streams : 2 * streams])
    logits = (u[:, 2 * streams :] * scale[2] + base[2 * streams :]).unflatten(1, (streams, streams))
    comb = arithmetic.exp(logits - logits.amax(-1, keepdim=True))
    comb = comb / ordered_sum(comb, -1)[..., None] + eps
    comb = comb / (ordered_sum(comb, -2)[:, None] + eps)
    for _ in range(iterations - 1):
        comb = comb / (ordered_sum(comb, -1)[..., None] + eps)
        comb = comb / (ordered_sum(comb, -2)[:, None] + eps)
    return Mix(pre, post, comb)


def mix_coefficients(
    streams: BFloat16[Tensor, "tokens streams dim"],
    weight: Float32[Tensor, "coefficients inputs"],
    norm_eps: float,
    arithmetic: Arithmetic,
) -> Float32[Tensor, "tokens coefficients"]:
    """u = (fn·z)·ρ over z, the streams end to end; ρ = 1/√(mean z² + eps) multiplies after the projection."""
    flat = streams.flatten(1)
    if arithmetic.kernels is not None:
        u, mean_square = arithmetic.kernels.float32_linear(flat, weight)
        return u * arithmetic.rsqrt(mean_square[:, None] + norm_eps)
    u = arithmetic.linear_float32(flat.float(), weight)
    return u * arithmetic.rsqrt(arithmetic.mean_square(flat.float()) + norm_eps)


def collapse(
    streams: BFloat16[Tensor, "tokens streams dim"], pre: Float32[Tensor, "tokens streams"]
) -> BFloat16[Tensor, "tokens dim"]:
    """bf16(Σ_c pre[c]·h[c]), streams ascending."""
    return ordered_sum(pre[..., None] * streams.float(), 1).to(streams.dtype)


def collapse_norm(
    streams: BFloat16[Tensor, "tokens streams dim"],
    pre: Float32[Tensor, "tokens streams"],
    weight: BFloat16[Tensor, "dim"],
    eps: float,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens dim"]:
    """`rms_norm` of `collapse`: a sublayer's input."""
    if arithmetic.kernels is not None:
        return arithmetic.kernels.collapse_norm(streams, pre, weight, eps)
    return rms_norm(collapse(streams, pre), weight, eps, arithmetic)


def collapse_norm_q8(
    streams: BFloat16[Tensor, "tokens streams dim"],
    pre: Float32[Tensor, "tokens streams"],
    weight: BFloat16[Tensor, "dim"],
    eps: float,
    arithmetic: Arithmetic,
) -> tuple[BFloat16[Tensor, "tokens dim"], Quantized]:
    """`collapse_norm` and Q8 of its result."""
    if arithmetic.kernels is not None:
        return arithmetic.kernels.collapse_norm_q8(streams, pre, weight, eps)
    x = collapse_norm(streams, pre, weight, eps, arithmetic)
    return x, arithmetic.quantize_q8(x)


def expand(
    x: BFloat16[Tensor, "tokens dim"],
    streams: BFloat16[Tensor, "tokens streams dim"],
    mix: Mix,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens streams dim"]:
    """The streams after a sublayer's output x, by the kernel where the arithmetic has one: the same bits."""
    if arithmetic.kernels is not None:
        return arithmetic.kernels.expand(x, streams, mix.post, mix.comb)
    return expand_torch(x, streams, mix)


def expand_torch(
    x: BFloat16[Tensor, "tokens dim"], streams: BFloat16[Tensor, "tokens streams dim"], mix: Mix
) -> BFloat16[Tensor, "tokens streams dim"]:
    """bf16(post[c]·x + Σ_j comb[j, c]·h[j]): the sum over source streams is complete before x joins."""
    mixed = ordered_sum(mix.comb[..., None] * streams.float()[:, :, None], 1)
    return (mix.post[..., None] * x.float()[:, None] + mixed).to(torch.bfloat16)
