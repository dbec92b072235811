"""RMSNorm: float32 inside, one rounding to bf16 (spec §4)."""

from jaxtyping import BFloat16
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.quantize import Quantized


def rms_norm(
    x: BFloat16[Tensor, "*rows columns"],
    weight: BFloat16[Tensor, "columns"],
    eps: float,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "*rows columns"]:
    """bf16(w · (x · 1/√(mean x² + eps))): the weight multiplies before the single rounding, there is no bias.

    The kernel adds the squares in sixteen float32 lanes.
    """
    if arithmetic.kernels is not None:
        return arithmetic.kernels.rms_norm(x, weight, eps)
    return rms_norm_torch(x, weight, eps, arithmetic)


def rms_norm_torch(
    x: BFloat16[Tensor, "*rows columns"],
    weight: BFloat16[Tensor, "columns"],
    eps: float,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "*rows columns"]:
    """The formula, its mean square in the arithmetic's accumulator."""
    wide = x.float()
    return (weight.float() * (wide * arithmetic.rsqrt(arithmetic.mean_square(wide) + eps))).to(x.dtype)


def rms_norm_q8(
    x: BFloat16[Tensor, "*rows columns"],
    weight: BFloat16[Tensor, "columns"],
    eps: float,
    arithmetic: Arithmetic,
) -> tuple[BFloat16[Tensor, "*rows columns"], Quantized]:
    """`rms_norm` and Q8 of its result, for a linear that reads it."""
    if arithmetic.kernels is not None:
        return arithmetic.kernels.rms_norm_q8(x, weight, eps)
    y = rms_norm_torch(x, weight, eps, arithmetic)
    return y, arithmetic.quantize_q8(y)
