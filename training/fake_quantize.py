"""What storing a value does to it, in float32 and straight through: forward rounds, backward passes (spec §3).

The same roundings as `shoal.ops.quantize` and the released weight formats, on ordinary float tensors and from their
bits, so that a compiler can fuse them. Scales follow the values: nothing saturates, and the gradient is the identity.
"""

import torch
from torch import Tensor

E4M3_MAX, E2M1_MAX = 448.0, 6.0
Q8_FLOOR, Q4I_FLOOR, Q4C_FLOOR = 1e-4, 6 * 2.0**-126, 6 * 2.0**-9
WEIGHT_FLOOR = 2.0**-100
TILE, Q4C_GROUP = 32, 16
_MANTISSA = (1 << 23) - 1
_E4M3_SMALLEST, _E4M3_STEP = 2.0**-6, 2.0**-9
_WHOLE = 1.5 * 2.0**23  # added and taken off again, it rounds a float32 to an integer, ties to even


def straight_through(x: Tensor, rounded: Tensor) -> Tensor:
    """`rounded`, with the gradient of x. Exact: a rounding is 0 or within a factor of two, so the difference is."""
    return x + (rounded - x).detach()


def bfloat16(x: Tensor) -> Tensor:
    """x rounded to bfloat16, from its bits: a compiler takes two casts for none."""
    return straight_through(x, _drop_bits(x.detach(), 16))


def q8(x: Tensor) -> Tensor:
    """Activations of quantised linears and window entries: E4M3, a power of two for 32 columns."""
    return straight_through(x, _e4m3_groups(x.detach(), Q8_FLOOR))


def q4i(x: Tensor) -> Tensor:
    """Index queries and keys: E2M1, a power of two for 32 columns."""
    return straight_through(x, _e2m1_groups(x.detach(), Q4I_FLOOR))


def q4c(x: Tensor) -> Tensor:
    """Compressed entries: E2M1, an E4M3 scale for 16 columns."""
    groups = x.detach().unflatten(-1, (-1, Q4C_GROUP))
    scale = to_e4m3(groups.abs().amax(-1, keepdim=True).clamp_min(Q4C_FLOOR) / E2M1_MAX)
    # The scale is rounded to nearest: a group's largest may lie beyond 6 of it.
    codes = to_e2m1((groups / scale).clamp(-E2M1_MAX, E2M1_MAX))
    return straight_through(x, (codes * scale).flatten(-2))


def e4m3_tiles(weight: Tensor) -> Tensor:
    """A dense weight [..., outputs, inputs]: E4M3, a power of two for a tile of 32 x 32."""
    tiles, scale = scaled_tiles(weight.detach())
    return straight_through(weight, (to_e4m3(tiles) * scale).flatten(-4, -3).flatten(-2))


def e4m3_rows(rows: Tensor) -> Tensor:
    """Engram rows [..., width]: E4M3, a power of two for 32 columns."""
    return straight_through(rows, _e4m3_groups(rows.detach(), WEIGHT_FLOOR))


def e2m1_rows(weight: Tensor) -> Tensor:
    """An expert's weight [..., outputs, inputs]: E2M1, a power of two for 32 inputs of a row."""
    return straight_through(weight, _e2m1_groups(weight.detach(), WEIGHT_FLOOR))


def scaled_tiles(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A dense weight in tiles [..., rows, 32, columns, 32], each divided by its scale; the scales, broadcastable."""
    tiles = weight.unflatten(-1, (-1, TILE)).unflatten(-3, (-1, TILE))
    scale = power_of_two_up(tiles.abs().amax((-1, -3), keepdim=True).clamp_min(WEIGHT_FLOOR) / E4M3_MAX)
    return tiles / scale, scale


def scaled_groups(x: Tensor, largest: float, floor: float = WEIGHT_FLOOR) -> tuple[Tensor, Tensor]:
    """x in groups of 32 columns [..., groups, 32], each divided by its scale; the scales, broadcastable."""
    groups = x.unflatten(-1, (-1, TILE))
    scale = power_of_two_up(groups.abs().amax(-1, keepdim=True).clamp_min(floor) / largest)
    return groups / scale, scale


def power_of_two_up(x: Tensor) -> Tensor:
    """The least power of two not below positive normal x."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + _MANTISSA) & ~_MANTISSA).view(torch.float32)


def to_e4m3(x: Tensor) -> Tensor:
    """The nearest E4M3 value of |x| <= 448, ties to even."""
    small = _whole(x / _E4M3_STEP) * _E4M3_STEP
    return torch.where(x.abs() < _E4M3_SMALLEST, small, _drop_bits(x, 20))


def to_e2m1(x: Tensor) -> Tensor:
    """The nearest E2M1 value of |x| <= 6, ties to even: steps of 1/2 below 2, of 1 below 4, of 2 above."""
    bits = x.abs().clamp(1.0, 4.0).contiguous().view(torch.int32)
    step = (bits & ~_MANTISSA).view(torch.float32) * 0.5
    return _whole(x / step) * step


def _e4m3_groups(x: Tensor, floor: float) -> Tensor:
    groups, scale = scaled_groups(x, E4M3_MAX, floor)
    return (to_e4m3(groups) * scale).flatten(-2)


def _e2m1_groups(x: Tensor, floor: float) -> Tensor:
    groups, scale = scaled_groups(x, E2M1_MAX, floor)
    return (to_e2m1(groups) * scale).flatten(-2)


def _drop_bits(x: Tensor, count: int) -> Tensor:
    """x with its last mantissa bits rounded away, ties to even."""
    bits = x.contiguous().view(torch.int32)
    odd = (bits >> count) & 1
    return ((bits + (odd + ((1 << (count - 1)) - 1))) & ~((1 << count) - 1)).view(torch.float32)


def _whole(x: Tensor) -> Tensor:
    return (x + _WHOLE) - _WHOLE
