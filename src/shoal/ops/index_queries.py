"""The indexer's queries and the weights of its heads (spec §4.5)."""

from dataclasses import dataclass

from jaxtyping import BFloat16
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.quantize import Quantized, quantize_q4i
from shoal.ops.rope import Rotation, rotate
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
    heads = weights.weights_proj.shape[0]
    q = arithmetic.quantized_linear(qr, weights.wq_b).unflatten(1, (heads, -1))
    return quantize_q4i(rotate(q, rotation)), arithmetic.linear_bfloat16(x, weights.weights_proj) * scale
