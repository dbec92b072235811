"""What an operator's result is compared with: exact rational arithmetic."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch

Rounded = Callable[[Fraction], float]


def round_once(value: Fraction, mantissa_bits: int, smallest_exponent: int, largest: float) -> float:
    """The nearest number of a binary format, ties to even; subnormals included, overflow to infinity."""
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    spacing = Fraction(2) ** (max(exponent, smallest_exponent) - mantissa_bits)
    rounded = round(magnitude / spacing) * spacing  # Python rounds halves to even
    return math.copysign(math.inf if rounded > largest else float(rounded), value)


def to_bfloat16(value: Fraction) -> float:
    """The nearest bfloat16."""
    return round_once(value, 7, -126, torch.finfo(torch.bfloat16).max)


@pytest.fixture(scope="session")
def nearest_bfloat16() -> Rounded:
    return to_bfloat16


@pytest.fixture(scope="session")
def nearest_float32() -> Rounded:
    return lambda value: round_once(value, 23, -126, torch.finfo(torch.float32).max)
