"""The projections around sparse attention (spec §4.2 steps 1, 2 and 7).

There is no norm on q after wq_b.
"""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16
from torch import Tensor

from shoal.ops.addresses import address, empty_quantized, float8_addresses, quantized_addresses
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.hyper_connections import Mix, expand
from shoal.ops.kernels import Kernels
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.rms_norm import rms_norm, rms_norm_q8
from shoal.ops.rope import rotate
from shoal.ops.rotation import Rotation
from shoal.ops.weights import Float8Weight


@dataclass(frozen=True)
class InputProjections:
    """Low-rank queries, and the one latent that is key and value."""

    wq_a: Float8Weight
    q_norm: BFloat16[Tensor, "q_rank"]
    wq_b: Float8Weight
    wkv: Float8Weight
    kv_norm: BFloat16[Tensor, "head_dim"]


@dataclass(frozen=True)
class OutputProjections:
    """The grouped projection of the heads, [groups·outputs, heads·head_dim / groups], and the one behind it."""

    wo_a: Float8Weight
    wo_b: Float8Weight
    groups: int


@dataclass(frozen=True)
class Projected:
    """Rotated queries, the low-rank queries in Q8 that the indexer reads too, and the rotated latent in Q8."""

    q: BFloat16[Tensor, "tokens heads head_dim"]
    qr: Quantized
    kv: Quantized


def project_in(
    x: Quantized, weights: InputProjections, rotation: Rotation, eps: float, arithmetic: Arithmetic
) -> Projected:
    """q = rope(wq_b·RMSNorm(wq_a·x)), kv = Q8(rope(RMSNorm(wkv·x)))."""
    if arithmetic.kernels is not None:
        return _project_in_native(x, weights, rotation, eps, arithmetic.kernels)
    return project_in_torch(x, weights, rotation, eps, arithmetic)


def project_in_torch(
    x: Quantized, weights: InputProjections, rotation: Rotation, eps: float, arithmetic: Arithmetic
) -> Projected:
    """`project_in` in torch, or of the operators that `arithmetic` has."""
    head_dim = weights.kv_norm.shape[0]
    _, qr = rms_norm_q8(arithmetic.quantized_linear(x, weights.wq_a), weights.q_norm, eps, arithmetic)
    q = arithmetic.quantized_linear(qr, weights.wq_b).unflatten(1, (-1, head_dim))
    kv = rms_norm(arithmetic.quantized_linear(x, weights.wkv), weights.kv_norm, eps, arithmetic)
    return Projected(rotate(q, rotation), qr, arithmetic.quantize_q8(rotate(kv, rotation)))


def project_out(
    o: BFloat16[Tensor, "tokens heads head_dim"],
    weights: OutputProjections,
    streams: BFloat16[Tensor, "tokens streams dim"],
    mix: Mix,
    arithmetic: Arithmetic,
) -> tuple[BFloat16[Tensor, "tokens dim"], BFloat16[Tensor, "tokens streams dim"]]:
    """wo_b·Q8(wo_a·o), and the streams it returns to. wo_a multiplies unquantised heads, a group of them at a time."""
    if arithmetic.kernels is not None:
        return _project_out_native(o, weights, streams, mix, arithmetic.kernels)
    return project_out_torch(o, weights, streams, mix, arithmetic)


def project_out_torch(
    o: BFloat16[Tensor, "tokens heads head_dim"],
    weights: OutputProjections,
    streams: BFloat16[Tensor, "tokens streams dim"],
    mix: Mix,
    arithmetic: Arithmetic,
) -> tuple[BFloat16[Tensor, "tokens dim"], BFloat16[Tensor, "tokens streams dim"]]:
    """`project_out` in torch, or of the operators that `arithmetic` has."""
    t = arithmetic.grouped_linear(o.reshape(o.shape[0], weights.groups, -1), weights.wo_a)
    x = arithmetic.quantized_linear(arithmetic.quantize_q8(t.flatten(1)), weights.wo_b)
    return x, expand(x, streams, mix, arithmetic)


def _project_in_native(
    x: Quantized, weights: InputProjections, rotation: Rotation, eps: float, kernels: Kernels
) -> Projected:
    (tokens, dim), pairs, head_dim = x.codes.shape, rotation.cos.shape[1], weights.kv_norm.shape[0]
    q_rank, heads = weights.q_norm.shape[0], weights.wq_b.codes.shape[0] // head_dim
    q = torch.empty((tokens, heads, head_dim), dtype=torch.bfloat16)
    qr, kv = empty_quantized(Q8, tokens, q_rank), empty_quantized(Q8, tokens, head_dim)
    kernels.native.project_in(
        *quantized_addresses(x),
        *(*float8_addresses(weights.wq_a), *float8_addresses(weights.wq_b), *float8_addresses(weights.wkv)),
        *map(address, (weights.q_norm, weights.kv_norm, rotation.cos, rotation.sin)),
        *(tokens, dim, q_rank, heads, head_dim, pairs, eps),
        *(address(q), *quantized_addresses(qr), *quantized_addresses(kv)),
    )
    return Projected(q, qr, kv)


def _project_out_native(
    o: BFloat16[Tensor, "tokens heads head_dim"],
    weights: OutputProjections,
    streams: BFloat16[Tensor, "tokens streams dim"],
    mix: Mix,
    kernels: Kernels,
) -> tuple[BFloat16[Tensor, "tokens dim"], BFloat16[Tensor, "tokens streams dim"]]:
    tokens, num_streams, dim = streams.shape
    groups, inputs = weights.groups, weights.wo_a.codes.shape[1]
    x, returned, o = torch.empty((tokens, dim), dtype=torch.bfloat16), torch.empty_like(streams), o.contiguous()
    kernels.native.project_out(
        *(address(o), *float8_addresses(weights.wo_a), *float8_addresses(weights.wo_b)),
        *(tokens, groups, inputs, weights.wo_a.codes.shape[0] // groups, dim),
        *(address(streams), address(mix.post), address(mix.comb), num_streams, address(x), address(returned)),
    )
    return x, returned
