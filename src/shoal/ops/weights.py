"""Weight matrices as the files hold them: codes and scales, never expanded when loaded (spec §3)."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32, Float64, UInt8
from torch import Tensor

from shoal.formats.float4 import decode_e2m1, unpack_e2m1
from shoal.formats.float8 import decode_e4m3, decode_e8m0

BLOCK = 32


@dataclass(frozen=True)
class Float8Weight:
    """An E4M3 matrix with one E8M0 scale per 32×32 tile."""

    codes: UInt8[Tensor, "outputs inputs"]
    scales: UInt8[Tensor, "output_tiles input_tiles"]

    def code_values(self) -> Float32[Tensor, "outputs inputs"]:
        """The codes' own values, not yet scaled."""
        return decode_e4m3(self.codes)

    def row_scales(self) -> Float64[Tensor, "outputs input_tiles"]:
        """The scale of every output row and 32-wide block of inputs."""
        return decode_e8m0(self.scales).repeat_interleave(BLOCK, dim=0)[: self.codes.shape[0]]

    @property
    def nbytes(self) -> int:
        """Bytes in memory, as stored."""
        return self.codes.nbytes + self.scales.nbytes


@dataclass(frozen=True)
class Float4Weight:
    """An E2M1 matrix packed two to a byte (low nibble = even input) with one E8M0 scale per 32 inputs of a row."""

    codes: UInt8[Tensor, "outputs half_inputs"]
    scales: UInt8[Tensor, "outputs input_blocks"]

    def code_values(self) -> Float32[Tensor, "outputs inputs"]:
        """The codes' own values, not yet scaled."""
        return decode_e2m1(unpack_e2m1(self.codes))

    def row_scales(self) -> Float64[Tensor, "outputs input_blocks"]:
        """The scale of every output row and 32-wide block of inputs."""
        return decode_e8m0(self.scales)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, as stored."""
        return self.codes.nbytes + self.scales.nbytes


BlockScaledWeight = Float8Weight | Float4Weight


def dequantize_weight(weight: BlockScaledWeight) -> BFloat16[Tensor, "outputs inputs"]:
    """code · scale for the whole matrix, exact in bfloat16. For reference arithmetic only: it expands the matrix."""
    values = weight.code_values()
    scales = weight.row_scales().float().repeat_interleave(BLOCK, dim=1)[:, : values.shape[1]]
    return (values * scales).to(torch.bfloat16)
