"""E4M3 values and E8M0 scales, code by code (spec §3).

Codes are uint8 tensors everywhere; torch's float8 dtypes stay inside this file.
"""

import torch
from jaxtyping import Float32, Float64, Int64, UInt8
from torch import Tensor

E4M3_MAX = 448.0
E4M3_NAN = 0x7F
E8M0_NAN = 0xFF
E8M0_BIAS = 127
FLOAT64_BIAS, FLOAT64_MANTISSA_BITS = 1023, 52


def _e4m3_table() -> Float64[Tensor, "256"]:
    values = []
    for code in range(256):
        sign = -1.0 if code & 0x80 else 1.0
        exponent, mantissa = (code >> 3) & 15, code & 7
        if code & 0x7F == E4M3_NAN:
            magnitude = float("nan")
        elif exponent == 0:
            magnitude = 2.0**-6 * mantissa / 8
        else:
            magnitude = 2.0 ** (exponent - 7) * (1 + mantissa / 8)
        values.append(sign * magnitude)
    return torch.tensor(values, dtype=torch.float64)


def _e8m0_table() -> Float64[Tensor, "256"]:
    values = [2.0 ** (code - E8M0_BIAS) for code in range(255)] + [float("nan")]
    return torch.tensor(values, dtype=torch.float64)


_E4M3 = _e4m3_table()
_E8M0 = _e8m0_table()
_E4M3_FLOAT32 = _E4M3.float()


def decode_e4m3(codes: UInt8[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
    """E4M3 codes as float32, exactly; 0x7F and 0xFF are NaN, there is no infinity."""
    return _E4M3_FLOAT32[codes.int()]


def encode_e4m3(values: Float32[Tensor, "*shape"]) -> UInt8[Tensor, "*shape"]:
    """The nearest E4M3 code, ties to even, saturating at ±448; NaN becomes a NaN code. The sign of zero stays."""
    return values.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def decode_e8m0(codes: UInt8[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """E8M0 codes as float64: 2^(code − 127), code 0 included; 255 is NaN."""
    return _E8M0[codes.int()]


def encode_e8m0(exponents: Int64[Tensor, "*shape"]) -> UInt8[Tensor, "*shape"]:
    """The code of 2^exponent for exponents −127..127, which the caller guarantees."""
    return (exponents + E8M0_BIAS).to(torch.uint8)


def power_of_two(exponents: Int64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """2^exponent as float64, exactly, for exponents −1022..1023, built from bits because pow rounds."""
    return ((exponents + FLOAT64_BIAS) << FLOAT64_MANTISSA_BITS).view(torch.float64)
