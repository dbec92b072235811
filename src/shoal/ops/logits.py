"""The last norm and the head (spec §4)."""

from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.hyper_connections import collapse
from shoal.ops.rms_norm import rms_norm


def logits_of(
    streams: BFloat16[Tensor, "wanted streams dim"],
    pre: Float32[Tensor, "wanted streams"],
    norm: BFloat16[Tensor, "dim"],
    head: BFloat16[Tensor, "vocab dim"],
    eps: float,
    arithmetic: Arithmetic,
) -> tuple[BFloat16[Tensor, "wanted dim"], Float32[Tensor, "wanted vocab"]]:
    """x = RMSNorm(Σ_c pre[c]·h[c]) and float32 head·x."""
    x = rms_norm(collapse(streams, pre), norm, eps, arithmetic)
    return x, arithmetic.head(x, head)
