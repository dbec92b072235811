"""Rotary embedding of the last dims, interleaved pairs (spec §4.3)."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32, Int64
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.rotation import Rotation


@dataclass(frozen=True)
class Yarn:
    """YaRN's parameters: how far frequencies are stretched, and between which of them the ramp lies."""

    factor: float
    original_length: int
    beta_fast: float
    beta_slow: float


def rope_frequencies(base: float, dims: int, yarn: Yarn | None) -> Float32[Tensor, "pairs"]:
    """Radians per position of each pair: base^(−2i/dims), with YaRN f/factor·ramp + f·(1−ramp). float32 throughout."""
    frequencies = 1.0 / (base ** (torch.arange(0, dims, 2, dtype=torch.float32) / dims))
    if yarn is None or yarn.original_length == 0:
        return frequencies

    def corrected(rotations: float) -> float:
        return dims * math.log(yarn.original_length / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(corrected(yarn.beta_fast)), 0)
    high = min(math.ceil(corrected(yarn.beta_slow)), dims - 1)
    ramp = (torch.arange(dims // 2, dtype=torch.float32) - low) / max(high - low, 1e-3)
    smooth = 1 - ramp.clamp(0, 1)
    return frequencies / yarn.factor * (1 - smooth) + frequencies * smooth


def rotation_at(
    positions: Int64[Tensor, "tokens"], frequencies: Float32[Tensor, "pairs"], arithmetic: Arithmetic
) -> Rotation:
    """The rotation of each position. The angle is a float32 product, as released: it matters above 1e5 positions."""
    if arithmetic.kernels is not None:
        return Rotation(*arithmetic.kernels.rope_table(positions, frequencies))
    return Rotation(*arithmetic.cos_sin(positions.float()[:, None] * frequencies))


def rotate(x: BFloat16[Tensor, "tokens *heads dim"], rotation: Rotation) -> BFloat16[Tensor, "tokens *heads dim"]:
    """`x` with its last 2·pairs dims rotated: float32 products and differences without fma, one rounding to bf16."""
    pairs = rotation.cos.shape[1]
    kept, turned = x[..., : x.shape[-1] - 2 * pairs], x[..., x.shape[-1] - 2 * pairs :]
    shape = (x.shape[0],) + (1,) * (x.dim() - 2) + (pairs,)
    cos, sin = rotation.cos.reshape(shape), rotation.sin.reshape(shape)
    real, imaginary = turned[..., 0::2].float(), turned[..., 1::2].float()
    rotated = torch.stack((real * cos - imaginary * sin, real * sin + imaginary * cos), dim=-1)
    return torch.cat((kept, rotated.flatten(-2).to(x.dtype)), dim=-1)
