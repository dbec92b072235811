"""Rounding once: float64 to bfloat16, and float32 square roots that are IEEE."""

import torch
from jaxtyping import BFloat16, Float32, Float64
from torch import Tensor

FLOAT64_MANTISSA_BITS, BFLOAT16_MANTISSA_BITS = 52, 7
DROPPED = FLOAT64_MANTISSA_BITS - BFLOAT16_MANTISSA_BITS
HALF_LESS_ONE = (1 << (DROPPED - 1)) - 1
KEPT = -1 << DROPPED
SMALLEST_NORMAL = 2.0**-126
# Adding and subtracting this rounds a float64 to a multiple of 2^-133, the spacing of bfloat16's subnormals.
SUBNORMAL_SHIFT = 1.5 * 2.0 ** (FLOAT64_MANTISSA_BITS - 133)


def round_to_bfloat16(values: Float64[Tensor, "*shape"]) -> BFloat16[Tensor, "*shape"]:
    """The nearest bfloat16, ties to even, in one rounding.

    torch's own cast goes through float32 and rounds twice. Infinities, NaN and the sign of zero pass.
    """
    bits = values.view(torch.int64)
    # The bit that stays lowest, added to a half less one, sends ties to even.
    rounded = (((bits >> DROPPED) & 1).add_(bits).add_(HALF_LESS_ONE) & KEPT).view(torch.float64)
    magnitude = values.abs()
    plain = (magnitude >= SMALLEST_NORMAL) & (magnitude < torch.inf)
    # NaN and infinity are exact as they are; what is below the normal range has a coarser grid.
    subnormal = torch.copysign((magnitude + SUBNORMAL_SHIFT) - SUBNORMAL_SHIFT, values)
    other = torch.where(magnitude < SMALLEST_NORMAL, subnormal, values)
    return torch.where(plain, rounded, other).to(torch.bfloat16)


def sqrt_float32(values: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
    """The correctly rounded square root; torch.sqrt on float32 may be an ulp off."""
    return values.double().sqrt().float()
