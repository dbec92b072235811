"""The last norm and the head (spec §4)."""

import torch
from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.ops.addresses import address
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.hyper_connections import collapse_norm
from shoal.ops.kernels import Kernels


def logits_of(
    streams: BFloat16[Tensor, "wanted streams dim"],
    pre: Float32[Tensor, "wanted streams"],
    norm: BFloat16[Tensor, "dim"],
    head: BFloat16[Tensor, "vocab dim"],
    eps: float,
    arithmetic: Arithmetic,
) -> tuple[BFloat16[Tensor, "wanted dim"], Float32[Tensor, "wanted vocab"]]:
    """x = RMSNorm(Σ_c pre[c]·h[c]) and float32 head·x."""
    if arithmetic.kernels is not None:
        return _logits_native(streams, pre, norm, head, eps, arithmetic.kernels)
    return logits_of_torch(streams, pre, norm, head, eps, arithmetic)


def logits_of_torch(
    streams: BFloat16[Tensor, "wanted streams dim"],
    pre: Float32[Tensor, "wanted streams"],
    norm: BFloat16[Tensor, "dim"],
    head: BFloat16[Tensor, "vocab dim"],
    eps: float,
    arithmetic: Arithmetic,
) -> tuple[BFloat16[Tensor, "wanted dim"], Float32[Tensor, "wanted vocab"]]:
    """`logits_of` in torch, or of the operators that `arithmetic` has."""
    x = collapse_norm(streams, pre, norm, eps, arithmetic)
    return x, arithmetic.head(x, head)


def _logits_native(
    streams: BFloat16[Tensor, "wanted streams dim"],
    pre: Float32[Tensor, "wanted streams"],
    norm: BFloat16[Tensor, "dim"],
    head: BFloat16[Tensor, "vocab dim"],
    eps: float,
    kernels: Kernels,
) -> tuple[BFloat16[Tensor, "wanted dim"], Float32[Tensor, "wanted vocab"]]:
    (wanted, num_streams, dim), vocabulary = streams.shape, head.shape[0]
    streams, pre = streams.contiguous(), pre.contiguous()
    x, logits = torch.empty((wanted, dim), dtype=torch.bfloat16), torch.empty((wanted, vocabulary))
    sizes = (wanted, num_streams, dim, vocabulary, eps)
    kernels.native.logits(*map(address, (streams, pre, norm, head)), *sizes, address(x), address(logits))
    return x, logits
