"""exp, log1p, sin and cos in float64 multiplications and additions, one written order each.

torch's own functions give other bits in a row's last elements and on another instruction set. These are a chain of
elementwise operations without fma, so that the same lines in C++ give the same bits. Errors stay below 2^-48 relative,
so that rounding to float32 afterwards is correct except in about one case of 2^24.
"""

from math import factorial

import torch
from jaxtyping import Float64
from torch import Tensor

from shoal.formats.float8 import FLOAT64_BIAS, FLOAT64_MANTISSA_BITS, power_of_two

LOG2_E = 1.4426950408889634
# ln 2 and π/2 cut into parts whose leading ones have trailing zeros, so that n times them is exact.
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
EXP_LARGEST, EXP_SMALLEST = 709.0, -745.0
# Below 2^-1022 the exponent is applied in two steps.
EXP_SPLIT = 512

_EXP_COEFFICIENTS = [1.0 / factorial(k) for k in range(13, -1, -1)]
_LOG_COEFFICIENTS = [1.0 / k for k in range(23, 0, -2)]
_SIN_COEFFICIENTS = [(-1.0) ** k / factorial(2 * k + 1) for k in range(8, -1, -1)]
_COS_COEFFICIENTS = [(-1.0) ** k / factorial(2 * k) for k in range(8, -1, -1)]

Values = Float64[Tensor, "*shape"]


def _horner(coefficients: list[float], x: Tensor) -> Tensor:
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total.mul_(x).add_(coefficient)
    return total


def exp(x: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """e^x: x = n·ln 2 + r, a degree 13 polynomial in r, scaled by 2^n. −inf gives 0; above 709 gives inf."""
    clamped = x.clamp(EXP_SMALLEST, EXP_LARGEST)
    n = (clamped * LOG2_E).round()
    r = (clamped - n * LN2_HIGH) - n * LN2_LOW
    exponent = n.to(torch.int64)
    first = exponent.clamp(-EXP_SPLIT, EXP_SPLIT)
    value = _horner(_EXP_COEFFICIENTS, r) * power_of_two(first) * power_of_two(exponent - first)
    value = torch.where(x < EXP_SMALLEST, torch.zeros_like(value), value)
    return torch.where(x > EXP_LARGEST, torch.full_like(value, torch.inf), value)


def log(x: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """ln x for positive normal x: x = 2^n·m with m in [√½, √2), then 2·artanh((m−1)/(m+1))."""
    bits = x.view(torch.int64)
    mantissa = (bits & ((1 << FLOAT64_MANTISSA_BITS) - 1)) | (FLOAT64_BIAS << FLOAT64_MANTISSA_BITS)
    m = mantissa.view(torch.float64)
    n = (bits >> FLOAT64_MANTISSA_BITS) - FLOAT64_BIAS
    above = m >= 2.0**0.5
    m = torch.where(above, m * 0.5, m)
    n = (n + above.to(torch.int64)).double()
    s = (m - 1.0) / (m + 1.0)
    series = 2.0 * s * _horner(_LOG_COEFFICIENTS, s * s)
    result: Tensor = n * LN2_HIGH + (series + n * LN2_LOW)
    return result


def log1p(x: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """ln(1 + x) for x ≥ 0: ln(u) with u = 1 + x rounded, plus what that rounding lost, divided by u."""
    u = 1.0 + x
    return log(u) + (x - (u - 1.0)) / u


def sin_cos(angle: Float64[Tensor, "*shape"]) -> tuple[Values, Values]:
    """(sin, cos) for |angle| up to 2^21: angle = n·π/2 + r, Taylor polynomials in r, swapped by n mod 4."""
    n = (angle * TWO_OVER_PI).round()
    r = ((angle - n * HALF_PI[0]) - n * HALF_PI[1]) - n * HALF_PI[2]
    square = r * r
    sine, cosine = r * _horner(_SIN_COEFFICIENTS, square), _horner(_COS_COEFFICIENTS, square)
    quadrant = n.to(torch.int64) & 3
    swapped = (quadrant & 1) == 1
    sin = torch.where(swapped, cosine, sine)
    cos = torch.where(swapped, sine, cosine)
    return torch.where(quadrant >= 2, -sin, sin), torch.where((quadrant == 1) | (quadrant == 2), -cos, cos)
