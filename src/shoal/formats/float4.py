"""E2M1 values and their packing two to a byte, low nibble first (spec §3)."""

import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

E2M1_MAX = 6.0
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
SIGN_BIT = 8

# (boundary, does a value exactly on it round up): ties go to the code whose mantissa bit is even.
_BOUNDARIES = ((0.25, False), (0.75, True), (1.25, False), (1.75, True), (2.5, False), (3.5, True), (5.0, False))
_E2M1 = torch.tensor(MAGNITUDES + tuple(-value for value in MAGNITUDES), dtype=torch.float32)


def decode_e2m1(codes: UInt8[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
    """E2M1 codes 0..15 as float32; code 8 is −0."""
    return _E2M1[codes.int()]


def encode_e2m1(values: Float32[Tensor, "*shape"]) -> UInt8[Tensor, "*shape"]:
    """The nearest E2M1 code, ties to even, saturating at ±6; the sign of zero stays."""
    magnitude = values.abs()
    code = torch.zeros_like(values, dtype=torch.uint8)
    for boundary, tie_goes_up in _BOUNDARIES:
        code += (magnitude >= boundary) if tie_goes_up else (magnitude > boundary)
    return code + torch.signbit(values).to(torch.uint8) * SIGN_BIT


def pack_e2m1(codes: UInt8[Tensor, "*rows columns"]) -> UInt8[Tensor, "*rows half"]:
    """Codes along the last axis two to a byte: the even column in the low nibble."""
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack_e2m1(packed: UInt8[Tensor, "*rows half"]) -> UInt8[Tensor, "*rows columns"]:
    """The inverse of `pack_e2m1`."""
    return torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2)
