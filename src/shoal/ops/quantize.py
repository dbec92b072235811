"""The three activation quantisers (spec §3.1): bf16 in, codes and scales out, groups along the last axis.

Scales of Q8 and Q4i round up to a power of two; the scale of Q4c is an E4M3 number used as it is. All three are exact
elementwise float32 arithmetic, so both arithmetics and every kernel give the same bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32, Int64, UInt8
from torch import Tensor

from shoal.formats.float4 import E2M1_MAX, decode_e2m1, encode_e2m1, pack_e2m1, unpack_e2m1
from shoal.formats.float8 import (
    E4M3_MAX,
    decode_e4m3,
    decode_e8m0,
    encode_e4m3,
    encode_e8m0,
    power_of_two,
)

Q8_FLOOR = 1e-4
Q4I_FLOOR = 6 * 2.0**-126
Q4C_FLOOR = 6 * 2.0**-9
FLOAT32_BIAS, FLOAT32_MANTISSA_BITS = 127, 23


@dataclass(frozen=True)
class BlockFormat:
    """How a row of values is stored: `group` columns share a scale, `codes_per_byte` codes share a byte."""

    name: str
    group: int
    codes_per_byte: int
    decode_scales: Callable[[Tensor], Tensor]

    def code_bytes(self, columns: int) -> int:
        """Bytes of codes in a row of `columns` values."""
        return columns // self.codes_per_byte

    def scale_bytes(self, columns: int) -> int:
        """Bytes of scales in a row of `columns` values."""
        return columns // self.group


Q8 = BlockFormat("Q8", 32, 1, decode_e8m0)
Q4I = BlockFormat("Q4i", 32, 2, decode_e8m0)
Q4C = BlockFormat("Q4c", 16, 2, decode_e4m3)


@dataclass(frozen=True)
class Quantized:
    """Rows of codes with one scale a group, in one of the three formats."""

    codes: UInt8[Tensor, "*rows code_bytes"]
    scales: UInt8[Tensor, "*rows groups"]
    format: BlockFormat

    def code_values(self) -> Float32[Tensor, "*rows columns"]:
        """The codes' own values, not yet scaled."""
        if self.format.codes_per_byte == 1:
            return decode_e4m3(self.codes)
        return decode_e2m1(unpack_e2m1(self.codes))

    def dequantize(self) -> BFloat16[Tensor, "*rows columns"]:
        """code · scale, exact in bfloat16."""
        scales = self.format.decode_scales(self.scales).float()
        values = _grouped(self.code_values(), self.format.group) * scales[..., None]
        return values.flatten(-2).to(torch.bfloat16)

    def __getitem__(self, rows: object) -> "Quantized":
        """The same rows picked from codes and scales."""
        return Quantized(self.codes[rows], self.scales[rows], self.format)  # type: ignore[index]


def quantize_q8_torch(x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
    """Q8, group 32: s = pow2up(max(|x|, 1e-4)·fp32(1/448)), code = E4M3(x/s)."""
    groups = _grouped(x.float(), Q8.group)
    exponents = _exponent_up(groups.abs().amax(-1).clamp_min(Q8_FLOOR) * torch.tensor(1 / E4M3_MAX))
    codes = encode_e4m3(groups / power_of_two(exponents).float()[..., None])
    return Quantized(codes.flatten(-2), encode_e8m0(exponents), Q8)


def quantize_q4i(x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
    """Q4i, group 32, indexer queries and keys: s = pow2up(max(|x|, 6·2^-126)·fp32(1/6)), code = E2M1(x/s)."""
    groups = _grouped(x.float(), Q4I.group)
    exponents = _exponent_up(groups.abs().amax(-1).clamp_min(Q4I_FLOOR) * torch.tensor(1 / E2M1_MAX))
    codes = encode_e2m1(groups / power_of_two(exponents).float()[..., None])
    return Quantized(pack_e2m1(codes.flatten(-2)), encode_e8m0(exponents), Q4I)


def quantize_q4c(x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
    """Q4c, group 16, compressed KV: s = E4M3(max(|x|, 6·2^-9)/6), not a power of two; code = E2M1(x/s)."""
    groups = _grouped(x.float(), Q4C.group)
    scales = encode_e4m3(groups.abs().amax(-1).clamp_min(Q4C_FLOOR) / E2M1_MAX)
    codes = encode_e2m1(groups / decode_e4m3(scales)[..., None])
    return Quantized(pack_e2m1(codes.flatten(-2)), scales, Q4C)


def _grouped(x: Float32[Tensor, "*rows columns"], group: int) -> Float32[Tensor, "*rows groups group"]:
    return torch.unflatten(x, -1, (x.shape[-1] // group, group))


def _exponent_up(x: Float32[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
    """ceil(log2 x) of positive normal float32 values, from the bits."""
    bits = x.view(torch.int32).long()
    fraction = bits & ((1 << FLOAT32_MANTISSA_BITS) - 1)
    return (bits >> FLOAT32_MANTISSA_BITS) - FLOAT32_BIAS + fraction.ne(0).long()
