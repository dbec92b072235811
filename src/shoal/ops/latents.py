"""From pooled groups to what is stored of them: compressed entries and index keys (spec §4.4, §4.5)."""

from dataclasses import dataclass

from jaxtyping import BFloat16
from torch import Tensor

from shoal.ops.addresses import address, empty_quantized, quantized_addresses
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.kernels import Kernels
from shoal.ops.quantize import Q4C, Q4I, Quantized
from shoal.ops.rms_norm import rms_norm
from shoal.ops.rope import rotate
from shoal.ops.rotation import Rotation


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
    if arithmetic.kernels is not None:
        return _finish_native(pooled, weights, rotation, eps, arithmetic.kernels)
    return finish_latents_torch(pooled, weights, rotation, eps, arithmetic)


def finish_latents_torch(
    pooled: BFloat16[Tensor, "groups head_dim"],
    weights: LatentWeights,
    rotation: Rotation,
    eps: float,
    arithmetic: Arithmetic,
) -> tuple[Quantized, Quantized]:
    """`finish_latents` in torch, or of the operators that `arithmetic` has."""
    latents = rms_norm(pooled, weights.norm, eps, arithmetic)
    keys = rms_norm(arithmetic.linear_bfloat16(latents, weights.index_wk), weights.index_k_norm, eps, arithmetic)
    return arithmetic.quantize_q4c(rotate(latents, rotation)), arithmetic.quantize_q4i(rotate(keys, rotation))


def _finish_native(
    pooled: BFloat16[Tensor, "groups head_dim"],
    weights: LatentWeights,
    rotation: Rotation,
    eps: float,
    kernels: Kernels,
) -> tuple[Quantized, Quantized]:
    (groups, dim), index_dim, pooled = pooled.shape, weights.index_wk.shape[0], pooled.contiguous()
    entries, keys = empty_quantized(Q4C, groups, dim), empty_quantized(Q4I, groups, index_dim)
    inputs = (pooled, weights.norm, weights.index_wk, weights.index_k_norm, rotation.cos, rotation.sin)
    kernels.native.finish_latents(
        *map(address, inputs),
        *(groups, dim, index_dim, rotation.cos.shape[1], eps),
        *(*quantized_addresses(entries), *quantized_addresses(keys)),
    )
    return entries, keys
