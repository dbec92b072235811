"""Rounding once: float64 to bfloat16, and float32 square roots that are IEEE."""

import torch
from jaxtyping import BFloat16, Float32, Float64
from torch import Tensor

MANTISSA_BITS_DROPPED = 52 - 7
SMALLEST_NORMAL = 2.0**-126
# Adding and subtracting this rounds a float64 to a multiple of 2^-133, the spacing of bfloat16's subnormals.
SUBNORMAL_SHIFT = 1.5 * 2.0 ** (52 - 133)


def round_to_bfloat16(values: Float64[Tensor, "*shape"]) -> BFloat16[Tensor, "*shape"]:
    """The nearest bfloat16, ties to even, in one rounding.

    torch's own cast goes through float32 and rounds twice. Infinities and NaN pass.
    """
    bits = values.view(torch.int64)
    half_less_one = (1 << (MANTISSA_BITS_DROPPED - 1)) - 1
    odd = (bits >> MANTISSA_BITS_DROPPED) & 1
    rounded = ((bits + half_less_one + odd) >> MANTISSA_BITS_DROPPED) << MANTISSA_BITS_DROPPED
    normal = torch.where(values.isfinite(), rounded.view(torch.float64), values)
    subnormal = (values + SUBNORMAL_SHIFT) - SUBNORMAL_SHIFT
    return torch.where(values.abs() < SMALLEST_NORMAL, subnormal, normal).to(torch.bfloat16)


def sqrt_float32(values: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
    """The correctly rounded square root; torch.sqrt on float32 may be an ulp off."""
    return values.double().sqrt().float()
