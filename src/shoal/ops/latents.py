"""From pooled groups to what is stored of them: compressed entries and index keys (spec §4.4, §4.5)."""

from dataclasses import dataclass

from jaxtyping import BFloat16
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.quantize import Quantized, quantize_q4c, quantize_q4i
from shoal.ops.rms_norm import rms_norm
from shoal.ops.rope import Rotation, rotate


@dataclass(frozen=True)
class LatentWeights:
    """The norm of the latents, and the projection and norm of the index keys."""

    norm: BFloat16[Tensor, "head_dim"]
    index_wk: BFloat16[Tensor, "index_dim head_dim"]
    index_k_norm: BFloat16[Tensor, "index_dim"]


def finish_latents(
    pooled: BFloat16[Tensor, "groups head_dim"],
    weights: LatentWeights,
    rotation: Rotation,
    eps: float,
    arithmetic: Arithmetic,
) -> tuple[Quantized, Quantized]:
    """(entries, index keys): Q4c(rope(l)) and Q4i(rope(RMSNorm(wk·l))) with l = RMSNorm(pooled).

    An index key comes from the latent before rope and before quantisation.
    """
    latents = rms_norm(pooled, weights.norm, eps, arithmetic)
    keys = rms_norm(arithmetic.linear_bfloat16(latents, weights.index_wk), weights.index_k_norm, eps, arithmetic)
    return quantize_q4c(rotate(latents, rotation)), quantize_q4i(rotate(keys, rotation))
