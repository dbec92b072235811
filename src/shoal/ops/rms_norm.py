"""RMSNorm: float32 inside, one rounding to bf16 (spec §4)."""

from jaxtyping import BFloat16
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic


def rms_norm(
    x: BFloat16[Tensor, "*rows columns"],
    weight: BFloat16[Tensor, "columns"],
    eps: float,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "*rows columns"]:
    """bf16(w · (x · 1/√(mean x² + eps))): the weight multiplies before the single rounding, there is no bias."""
    wide = x.float()
    return (weight.float() * (wide * arithmetic.rsqrt(arithmetic.mean_square(wide) + eps))).to(x.dtype)
