"""The indexer's queries and the weights of its heads (spec §4.5)."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16
from torch import Tensor

from shoal.ops.addresses import address, empty_quantized, float8_addresses, quantized_addresses
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.kernels import Kernels
from shoal.ops.quantize import Q4I, Quantized
from shoal.ops.rope import rotate
from shoal.ops.rotation import Rotation
from shoal.ops.weights import Float8Weight


@dataclass(frozen=True)
class IndexerWeights:
    """Projections of the index queries and of the weight of each index head."""

    wq_b: Float8Weight
    weights_proj: BFloat16[Tensor, "heads dim"]


def index_queries(
    qr: Quantized,
    x: BFloat16[Tensor, "tokens dim"],
    weights: IndexerWeights,
    rotation: Rotation,
    scale: float,
    arithmetic: Arithmetic,
) -> tuple[Quantized, BFloat16[Tensor, "tokens heads"]]:
    """Q4i(rope(wq_b·qr)) of every head, [tokens, heads, index_dim], and bf16(weights_proj·x)·scale."""
    if arithmetic.kernels is not None:
        return _queries_native(qr, x, weights, rotation, scale, arithmetic.kernels)
    return index_queries_torch(qr, x, weights, rotation, scale, arithmetic)


def index_queries_torch(
    qr: Quantized,
    x: BFloat16[Tensor, "tokens dim"],
    weights: IndexerWeights,
    rotation: Rotation,
    scale: float,
    arithmetic: Arithmetic,
) -> tuple[Quantized, BFloat16[Tensor, "tokens heads"]]:
    """`index_queries` in torch, or of the operators that `arithmetic` has."""
    heads = weights.weights_proj.shape[0]
    q = arithmetic.quantized_linear(qr, weights.wq_b).unflatten(1, (heads, -1))
    return arithmetic.quantize_q4i(rotate(q, rotation)), arithmetic.linear_bfloat16(x, weights.weights_proj) * scale


def _queries_native(
    qr: Quantized,
    x: BFloat16[Tensor, "tokens dim"],
    weights: IndexerWeights,
    rotation: Rotation,
    scale: float,
    kernels: Kernels,
) -> tuple[Quantized, BFloat16[Tensor, "tokens heads"]]:
    (tokens, q_rank), (heads, dim) = qr.codes.shape, weights.weights_proj.shape
    index_dim, x = weights.wq_b.codes.shape[0] // heads, x.contiguous()
    q, head_weights = empty_quantized(Q4I, tokens, heads, index_dim), torch.empty((tokens, heads), dtype=x.dtype)
    kernels.native.index_queries(
        *(*quantized_addresses(qr), address(x), address(weights.weights_proj), *float8_addresses(weights.wq_b)),
        *(address(rotation.cos), address(rotation.sin)),
        *(tokens, q_rank, dim, heads, index_dim, rotation.cos.shape[1], scale),
        *(*quantized_addresses(q), address(head_weights)),
    )
    return q, head_weights
