"""One rounding from float64 to bfloat16, against exact rational arithmetic."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.ops.rounding import round_to_bfloat16, sqrt_float32

Rounded = Callable[[Fraction], float]
BFLOAT16_MAX = torch.finfo(torch.bfloat16).max


def rounded(value: float) -> float:
    return round_to_bfloat16(torch.tensor([value], dtype=torch.float64)).item()


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1 + 2**-8 + 2**-40)  # through float32 this becomes a tie and goes down
@example(1 + 3 * 2**-8 - 2**-40)
@example(2.0**-133)  # the smallest subnormal
@example(2.0**-134)  # half of it: a tie
@example(2.0**-134 * (1 + 2**-40))
@example(2.0**-126 * (1 - 2**-40))  # rounds up to a normal
@example(3.5 * 2.0**-133)
@example(BFLOAT16_MAX * (1 + 2**-10))
@example(2.0**128 - 2.0**119)  # the tie between the largest value and infinity
def test_any_float64_goes_to_the_nearest_bfloat16(nearest_bfloat16: Rounded, value: float) -> None:
    assert rounded(value) == nearest_bfloat16(Fraction(value))


@given(st.integers(-134, 127), st.integers(128, 511), st.floats(-1, 1))
def test_values_near_ties_round_once(nearest_bfloat16: Rounded, exponent: int, half_steps: int, nudge: float) -> None:
    value = math.ldexp(half_steps * (1 + nudge * 2**-30), exponent - 8)
    assert rounded(value) == nearest_bfloat16(Fraction(value))


def test_the_trap_of_a_cast_through_float32_is_real() -> None:
    trap = torch.tensor([1 + 2**-8 + 2**-40], dtype=torch.float64)
    assert trap.to(torch.bfloat16).item() == 1.0
    assert rounded(trap.item()) == 1 + 2**-7


@pytest.mark.parametrize("infinity", [torch.inf, -torch.inf])
def test_infinities_stay(infinity: float) -> None:
    assert rounded(infinity) == infinity


def test_nan_stays() -> None:
    assert math.isnan(rounded(torch.nan))


def test_the_sign_of_zero_stays() -> None:
    zeros = torch.tensor([0.0, -0.0, 1e-300, -1e-300], dtype=torch.float64)
    assert torch.signbit(round_to_bfloat16(zeros)).tolist() == [False, True, False, True]


def test_every_bfloat16_is_itself() -> None:
    codes = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    finite = codes[codes.isfinite()]
    assert torch.equal(round_to_bfloat16(finite.double()), finite)


@given(st.floats(0, width=32, allow_infinity=False))
def test_the_square_root_is_the_nearest_float32(value: float) -> None:
    found = Fraction(sqrt_float32(torch.tensor([value])).item())
    below, above = (
        Fraction(torch.nextafter(torch.tensor(float(found)), torch.tensor(end)).item()) for end in (0.0, 3e38)
    )
    exact = Fraction(value)
    assert exact <= ((found + above) / 2) ** 2
    assert found == 0 or ((found + below) / 2) ** 2 <= exact
