"""The projections around sparse attention (spec §4.2 steps 1, 2 and 7).

There is no norm on q after wq_b.
"""

from dataclasses import dataclass

from jaxtyping import BFloat16
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.hyper_connections import Mix, expand
from shoal.ops.quantize import Quantized
from shoal.ops.rms_norm import rms_norm
from shoal.ops.rope import Rotation, rotate
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
    head_dim = weights.kv_norm.shape[0]
    qr = arithmetic.quantize_q8(rms_norm(arithmetic.quantized_linear(x, weights.wq_a), weights.q_norm, eps, arithmetic))
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
    t = arithmetic.grouped_linear(o.reshape(o.shape[0], weights.groups, -1), weights.wo_a)
    x = arithmetic.quantized_linear(arithmetic.quantize_q8(t.flatten(1)), weights.wo_b)
    return x, expand(x, streams, mix)
