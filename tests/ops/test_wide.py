"""Wide arithmetic: sums in a written order, products exact, one rounding, and no row knows its neighbours."""

from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from shoal.formats.float4 import decode_e2m1, unpack_e2m1
from shoal.formats.float8 import decode_e4m3, decode_e8m0
from shoal.ops import wide
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.weights import Float4Weight, Float8Weight
from shoal.ops.wide import Wide, dot, halving_sum

Rounded = Callable[[Fraction], float]
W = Wide()


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=generator(seed)).to(dtype)


def codes_e4m3(*shape: int, seed: int) -> Tensor:
    codes = torch.randint(0, 256, shape, generator=generator(seed), dtype=torch.uint8)
    return torch.where(codes & 0x7F == 0x7F, codes ^ 1, codes)


def scales(low: int, high: int, *shape: int, seed: int) -> Tensor:
    return torch.randint(low, high, shape, generator=generator(seed), dtype=torch.uint8)


@given(st.lists(st.integers(-(2**40), 2**40), max_size=70))
def test_a_sum_that_float64_can_hold_is_exact(terms: list[int]) -> None:
    assert halving_sum(torch.tensor(terms, dtype=torch.float64)).item() == sum(terms)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 33])
def test_the_upper_half_is_added_to_the_lower(count: int) -> None:
    terms = random(count, seed=count).double() * torch.logspace(0, 14, count, dtype=torch.float64)
    values = terms.tolist()
    while len(values) > 1:
        kept = (len(values) + 1) // 2
        values = [v + values[kept + i] if kept + i < len(values) else v for i, v in enumerate(values[:kept])]
    assert halving_sum(terms).item() == values[0]


@given(st.lists(st.tuples(*[st.integers(-(2**20), 2**20)] * 2), min_size=1, max_size=40))
def test_a_dot_of_integers_is_exact(pairs: list[tuple[int, int]]) -> None:
    x, y = torch.tensor(pairs, dtype=torch.float32).unbind(1)
    assert dot(x, y).item() == sum(a * b for a, b in pairs)


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_a_dot_has_the_same_bits_in_any_batch(rows: int) -> None:
    x, y = random(14, 100, seed=1), random(14, 100, seed=2)
    parts = torch.cat([dot(a, b) for a, b in zip(x.split(rows), y.split(rows), strict=True)])
    assert torch.equal(parts, dot(x, y))
    assert torch.equal(dot(x[:, None], y[None])[3, 5], dot(x[3], y[5]))


def exact_dot(x: list[float], y: list[float]) -> Fraction:
    return sum((Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True)), Fraction(0))


def exact_linear(x: Quantized, weight: Float8Weight | Float4Weight) -> list[list[Fraction]]:
    left = [
        [Fraction(c) * Fraction(s) for c, s in zip(row, expanded, strict=True)]
        for row, expanded in zip(
            decode_e4m3(x.codes).tolist(),
            decode_e8m0(x.scales).repeat_interleave(32, 1).tolist(),
            strict=True,
        )
    ]
    codes, weight_scales = weight.codes, decode_e8m0(weight.scales).repeat_interleave(32, 1)
    if isinstance(weight, Float8Weight):
        values = decode_e4m3(codes)
        weight_scales = weight_scales.repeat_interleave(32, 0)[: codes.shape[0]]
    else:
        values = decode_e2m1(unpack_e2m1(codes))
    right = [
        [Fraction(c) * Fraction(s) for c, s in zip(row, row_scales, strict=True)]
        for row, row_scales in zip(values.tolist(), weight_scales.tolist(), strict=True)
    ]
    return [[sum((a * b for a, b in zip(p, q, strict=True)), Fraction(0)) for q in right] for p in left]


# Scale codes like the model's, tiny ones whose results are subnormal, huge ones that overflow, all there are.
SCALES = {"usual": (110, 132), "subnormal": (52, 66), "overflowing": (180, 200), "any": (0, 255)}


@pytest.mark.parametrize("kind", ["float8", "float4"])
@pytest.mark.parametrize("spread", SCALES)
def test_a_quantised_product_is_the_exact_one_rounded_once(kind: str, spread: str, nearest_bfloat16: Rounded) -> None:
    low, high = SCALES[spread]
    seed = low + len(kind)
    x = Quantized(codes_e4m3(3, 96, seed=seed), scales(low, high, 3, 3, seed=seed + 1), Q8)
    if kind == "float8":
        weight: Float8Weight | Float4Weight = Float8Weight(
            codes_e4m3(40, 96, seed=seed + 2), scales(low, high, 2, 3, seed=seed + 3)
        )
    else:
        packed = torch.randint(0, 256, (40, 48), generator=generator(seed + 2), dtype=torch.uint8)
        weight = Float4Weight(packed, scales(low, high, 40, 3, seed=seed + 3))
    wanted = [[nearest_bfloat16(value) for value in row] for row in exact_linear(x, weight)]
    assert W.quantized_linear(x, weight).tolist() == wanted


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 40))
def test_a_bfloat16_product_is_the_exact_one_rounded_once(nearest_bfloat16: Rounded, seed: int, inputs: int) -> None:
    x = random(2, inputs, seed=seed, dtype=torch.bfloat16)
    w = random(3, inputs, seed=seed + 1, dtype=torch.bfloat16)
    wanted = [[nearest_bfloat16(exact_dot(p, q)) for q in w.tolist()] for p in x.tolist()]
    assert W.linear_bfloat16(x, w).tolist() == wanted


BATCHED = {
    "quantised": lambda x: W.quantized_linear(
        W.quantize_q8(x), Float8Weight(codes_e4m3(40, 96, seed=3), scales(110, 130, 2, 3, seed=4))
    ),
    "bfloat16": lambda x: W.linear_bfloat16(x, random(40, 96, seed=5, dtype=torch.bfloat16)),
    "float32": lambda x: W.linear_float32(x, random(40, 96, seed=6)),
    "head": lambda x: W.head(x, random(40, 96, seed=7, dtype=torch.bfloat16)),
    "grouped": lambda x: W.grouped_linear(
        x.unflatten(1, (3, 32)), Float8Weight(codes_e4m3(3 * 32, 32, seed=8), scales(110, 130, 3, 1, seed=8))
    ),
    "scores": lambda x: W.attention_scores(x.unflatten(1, (4, 24)), x.repeat(1, 3).unflatten(1, (12, 24)).contiguous()),
    "values": lambda x: W.weighted_values(
        x.unflatten(1, (4, 24)).abs(), x.repeat(1, 3).unflatten(1, (24, 12)).contiguous()
    ),
    "index": lambda x: W.index_products(x.unflatten(1, (4, 24)), random(9, 24, seed=9, dtype=torch.bfloat16)),
    "total": lambda x: W.total(x.float()),
    "mean square": lambda x: W.mean_square(x.float()),
    "exp": lambda x: W.exp(x.float()),
    "sigmoid": lambda x: W.sigmoid(x.float()),
    "silu": lambda x: W.silu(x.float()),
    "softplus": lambda x: W.softplus(x.float() * 15),
    "softmax": lambda x: W.group_softmax(x.float().unflatten(1, (2, 48))),
    "cosine": lambda x: W.cos_sin(x.float())[0],
    "rsqrt": lambda x: W.rsqrt(x.float().abs() + 1),
}


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("rows", [1, 2, 5, 7])
def test_a_row_has_the_same_bits_in_any_batch(name: str, rows: int) -> None:
    x = random(11, 96, seed=10, dtype=torch.bfloat16)
    parts = torch.cat([BATCHED[name](part) for part in x.split(rows)])
    assert torch.equal(parts, BATCHED[name](x))


@pytest.mark.parametrize("name", ["quantised", "bfloat16", "scores"])
@pytest.mark.parametrize("products", [1, 97, 4000])
def test_how_many_products_are_held_at_once_changes_nothing(
    name: str, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random(11, 96, seed=11, dtype=torch.bfloat16)
    whole = BATCHED[name](x)
    monkeypatch.setattr(wide, "PRODUCTS_AT_ONCE", products)
    assert torch.equal(BATCHED[name](x), whole)


@pytest.mark.parametrize("name", ["quantised", "bfloat16", "float32", "head"])
def test_no_rows_give_no_rows(name: str) -> None:
    assert BATCHED[name](torch.zeros(0, 96, dtype=torch.bfloat16)).shape == (0, 40)


def test_the_functions_are_what_they_are_called() -> None:
    x = torch.linspace(-30, 30, 601)
    wide_x = x.double()
    for found, wanted in (
        (W.exp(x), wide_x.exp()),
        (W.sigmoid(x), wide_x.sigmoid()),
        (W.silu(x), wide_x * wide_x.sigmoid()),
        (W.softplus(x), wide_x.exp().log1p()),
        (W.rsqrt(x.abs() + 1), (wide_x.abs() + 1).rsqrt()),
    ):
        # Two or three float32 roundings of 2^-24 each.
        torch.testing.assert_close(found.double(), wanted, rtol=2**-22, atol=0)


def test_softplus_is_the_identity_above_twenty() -> None:
    x = torch.tensor([20.0, 20.000002, 25.0, 1e30])
    assert W.softplus(x)[1:].tolist() == x[1:].tolist()
    assert W.softplus(x)[0].item() == pytest.approx(20.000000002)


def test_sigmoid_and_silu_saturate_without_nan() -> None:
    x = torch.tensor([-1e30, -200.0, 200.0, 1e30])
    assert W.sigmoid(x).tolist() == [0, 0, 1, 1]
    assert W.silu(x).tolist() == [0, 0, 200, x[3].item()]


def test_a_group_softmax_sums_to_one_over_its_members() -> None:
    weights = W.group_softmax(random(5, 2, 8, seed=12) * 20)
    torch.testing.assert_close(weights.sum(1), torch.ones(5, 8), rtol=0, atol=2**-23)
    equal = W.group_softmax(torch.full((1, 2, 3), 7.0))
    assert torch.equal(equal, torch.full((1, 2, 3), 0.5))


SCORES = st.sampled_from([-torch.inf, -1.0, -0.0, 0.0, 0.5, 1.0, torch.inf])


@given(st.lists(SCORES, min_size=1, max_size=12), st.integers(0, 12))
def test_the_largest_come_first_and_the_lower_index_among_equals(values: list[float], count: int) -> None:
    count = min(count, len(values))
    wanted = sorted(range(len(values)), key=lambda i: (-values[i], i))[:count]
    assert W.top_indices(torch.tensor([values]), count).tolist() == [wanted]
