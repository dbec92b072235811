"""exp, log, log1p, sin and cos: accurate, and the same bits wherever a value stands."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from shoal.ops import elementary

# The module promises 2^-48; float32 arguments of the model's ranges keep well below it.
BOUND = 2.0**-48


def relative(found: float, exact: Decimal) -> float:
    return float(abs(Decimal(found) - exact) / abs(exact))


@given(st.floats(-100, 88.5, width=32))
def test_exp_is_within_its_bound(x: float) -> None:
    with localcontext() as context:
        context.prec = 40
        exact = Decimal(x).exp()
        assert relative(elementary.exp(torch.tensor([x], dtype=torch.float64)).item(), exact) < BOUND


@given(st.floats(1e-30, 1e30))
def test_log_is_within_its_bound(x: float) -> None:
    with localcontext() as context:
        context.prec = 40
        exact = Decimal(x).ln()
        found = elementary.log(torch.tensor([x], dtype=torch.float64)).item()
        assert abs(Decimal(found) - exact) <= Decimal(BOUND) * max(abs(exact), Decimal(2) ** -5)


@given(st.floats(2.0**-60, 2.0**30))
def test_log1p_is_within_its_bound(x: float) -> None:
    with localcontext() as context:
        context.prec = 60
        exact = (1 + Decimal(x)).ln()
        assert relative(elementary.log1p(torch.tensor([x], dtype=torch.float64)).item(), exact) < BOUND


@given(st.floats(0, 2.0**21, width=32))
@example(1048575.0)
@example(2.0**21)
def test_sine_and_cosine_are_within_an_absolute_bound(angle: float) -> None:
    sine, cosine = elementary.sin_cos(torch.tensor([angle], dtype=torch.float64))
    # libm's float64 functions are within an ulp, 2^-53 here.
    assert abs(sine.item() - math.sin(angle)) < 2**-50
    assert abs(cosine.item() - math.cos(angle)) < 2**-50


def test_the_quadrants_follow_each_other() -> None:
    angles = torch.arange(16, dtype=torch.float64) * (math.pi / 4)
    sine, cosine = elementary.sin_cos(angles)
    torch.testing.assert_close(sine, angles.sin(), rtol=0, atol=2**-50)
    torch.testing.assert_close(cosine, angles.cos(), rtol=0, atol=2**-50)


def test_exp_saturates() -> None:
    x = torch.tensor([-torch.inf, -800.0, -745.0, 0.0, 709.5, torch.inf], dtype=torch.float64)
    found = elementary.exp(x).tolist()
    assert found[:2] == [0.0, 0.0] and found[3:] == [1.0, torch.inf, torch.inf]
    assert 0 <= found[2] <= 1e-323


def test_the_functions_of_zero_are_exact() -> None:
    zero = torch.zeros(1, dtype=torch.float64)
    sine, cosine = elementary.sin_cos(zero)
    found = (elementary.exp(zero), elementary.log1p(zero), elementary.log(zero + 1), sine, cosine)
    assert [value.item() for value in found] == [1.0, 0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "function",
    [
        elementary.exp,
        lambda x: elementary.log(x.abs() + 1e-6),
        lambda x: elementary.log1p(x.abs()),
        lambda x: elementary.sin_cos(x)[0],
        lambda x: elementary.sin_cos(x)[1],
    ],
    ids=["exp", "log", "log1p", "sin", "cos"],
)
@pytest.mark.parametrize("count", [1, 2, 7, 31, 32, 33, 1000])
def test_a_value_has_the_same_bits_in_any_slice(function: Callable[[Tensor], Tensor], count: int) -> None:
    x = torch.randn(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(count)) * 20
    whole = function(x)
    parts = torch.cat([function(part) for part in x.split(count)])
    strided = function(torch.stack((x, -x), dim=1)[:, 0])
    assert torch.equal(parts.view(torch.int64), whole.view(torch.int64))
    assert torch.equal(strided.view(torch.int64), whole.view(torch.int64))
