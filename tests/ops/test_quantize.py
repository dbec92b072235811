"""The three activation quantisers against the rules of spec §3.1 in exact arithmetic."""

from bisect import bisect_left
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from shoal.formats.float8 import decode_e4m3, encode_e4m3
from shoal.ops.quantize import (
    Q4C,
    Q4I,
    Q8,
    BlockFormat,
    Quantized,
    quantize_q4c,
    quantize_q4i,
    quantize_q8_torch,
)

QUANTISERS = {"Q8": quantize_q8_torch, "Q4i": quantize_q4i, "Q4c": quantize_q4c}
FORMATS = {"Q8": Q8, "Q4i": Q4I, "Q4c": Q4C}
# Spec §9's group: the first eight of it, zeros after.
VECTOR = [0.01, -0.02, 0.3, 1.0, -0.77, 0.125, 0.0025, -0.0001]

BFLOAT16_BITS = st.integers(0, 0xFFFF).filter(lambda bits: bits & 0x7F80 != 0x7F80)
ROWS = st.lists(BFLOAT16_BITS, min_size=32, max_size=32)
# Values within a few binades, as activations are: all codes of a group get used.
NEAR = st.lists(st.integers(-(2**11), 2**11).map(lambda v: v / 256), min_size=32, max_size=32)


def row_of(bits: list[int]) -> Tensor:
    signed = [value - (1 << 16 if value & 0x8000 else 0) for value in bits]
    return torch.tensor(signed, dtype=torch.int16).view(torch.bfloat16)


def published(name: str) -> Tensor:
    columns = FORMATS[name].group
    return torch.tensor(VECTOR + [0.0] * (columns - 8), dtype=torch.bfloat16)


def scales_of(q: Quantized) -> list[float]:
    values: list[float] = q.format.decode_scales(q.scales).tolist()
    return values


@pytest.mark.parametrize(
    ("name", "scale", "values"),
    [
        ("Q4c", 0.171875, [0, -0.0, 0.34375, 1.03125, -0.6875, 0.0859375, 0, -0.0]),
        ("Q4i", 0.25, [0, -0.0, 0.25, 1, -0.75, 0.125, 0, -0.0]),
        (
            "Q8",
            2.0**-8,
            [0.009765625, -0.01953125, 0.3125, 1.0, -0.75, 0.125, 0.00244140625, -9.918212890625e-05],
        ),
    ],
)
def test_the_published_vectors_are_met(name: str, scale: float, values: list[float]) -> None:
    q = QUANTISERS[name](published(name))
    assert scales_of(q) == [scale]
    found, wanted = q.dequantize()[:8], torch.tensor(values, dtype=torch.bfloat16)
    assert torch.equal(found.view(torch.int16), wanted.view(torch.int16))


def test_the_published_scale_of_q4c_is_byte_0x23() -> None:
    assert quantize_q4c(published("Q4c")).scales.tolist() == [0x23]


def test_zero_groups_get_the_smallest_scale_and_keep_their_signs() -> None:
    zeros = torch.tensor([0.0, -0.0] * 16, dtype=torch.bfloat16)
    assert scales_of(quantize_q4c(zeros)) == [2.0**-9, 2.0**-9]
    assert scales_of(quantize_q4i(zeros)) == [2.0**-126]
    # pow2up(1e-4/448)
    assert scales_of(quantize_q8_torch(zeros)) == [2.0**-22]
    for quantise in QUANTISERS.values():
        values = quantise(zeros).dequantize()
        assert not values.any() and torch.equal(torch.signbit(values), torch.signbit(zeros))


def power_of_two_up(value: Fraction) -> Fraction:
    power = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - 1)
    while power < value:
        power *= 2
    return power


def float32_product(a: float, b: float) -> Fraction:
    return Fraction((torch.tensor(a) * torch.tensor(b)).item())


def expected_scale(name: str, largest: float) -> Fraction:
    if name == "Q4c":
        floored = torch.tensor(max(largest, 6 * 2.0**-9))
        return Fraction(decode_e4m3(encode_e4m3((floored / 6)[None])).item())
    if name == "Q4i":
        return power_of_two_up(float32_product(max(largest, 6 * 2.0**-126), 1 / 6))
    return power_of_two_up(float32_product(max(largest, torch.tensor(1e-4).item()), 1 / 448))


def grid(format: BlockFormat) -> list[Fraction]:
    if format is Q8:
        codes = torch.arange(0x7F, dtype=torch.uint8)
        return [Fraction(v) for v in decode_e4m3(codes).tolist()]
    return [Fraction(m) for m in (0, 0.5, 1, 1.5, 2, 3, 4, 6)]


GRIDS = {name: grid(format) for name, format in FORMATS.items()}


def check_against_rules(name: str, x: Tensor) -> None:
    q, group = QUANTISERS[name](x), FORMATS[name].group
    codes = q.code_values().unflatten(-1, (-1, group))
    for values, found, scale in zip(x.unflatten(-1, (-1, group)), codes, scales_of(q), strict=True):
        assert Fraction(scale) == expected_scale(name, values.abs().max().item())
        for value, code in zip(values.tolist(), found.tolist(), strict=True):
            wanted = abs(Fraction(value)) / Fraction(scale)
            above = bisect_left(GRIDS[name], wanted)
            nearest = min(abs(point - wanted) for point in GRIDS[name][max(above - 1, 0) : above + 1])
            assert abs(abs(Fraction(code)) - wanted) == nearest
            assert not code or (code > 0) == (value > 0)


@pytest.mark.parametrize("name", QUANTISERS)
@settings(max_examples=30)
@given(bits=ROWS)
def test_any_bfloat16_gets_the_scale_of_the_rules_and_the_nearest_code(name: str, bits: list[int]) -> None:
    check_against_rules(name, row_of(bits))


@pytest.mark.parametrize("name", QUANTISERS)
@settings(max_examples=30)
@given(values=NEAR)
def test_activations_get_the_scale_of_the_rules_and_the_nearest_code(name: str, values: list[float]) -> None:
    check_against_rules(name, torch.tensor(values, dtype=torch.bfloat16))


@pytest.mark.parametrize("name", ["Q8", "Q4i"])
@settings(max_examples=30)
@given(values=NEAR)
def test_quantising_what_was_quantised_changes_nothing(name: str, values: list[float]) -> None:
    once = QUANTISERS[name](torch.tensor(values, dtype=torch.bfloat16)).dequantize()
    twice = QUANTISERS[name](once).dequantize()
    assert torch.equal(once, twice)


@pytest.mark.parametrize("name", QUANTISERS)
@settings(max_examples=30)
@given(bits=ROWS)
def test_dequantised_values_are_exact_in_bfloat16(name: str, bits: list[int]) -> None:
    q = QUANTISERS[name](row_of(bits))
    scale = torch.tensor(scales_of(q), dtype=torch.float64).repeat_interleave(q.format.group)
    assert torch.equal(q.dequantize().double(), q.code_values().double() * scale)


@pytest.mark.parametrize("name", QUANTISERS)
@settings(max_examples=30)
@given(bits=ROWS)
def test_negating_the_values_negates_the_codes(name: str, bits: list[int]) -> None:
    x = row_of(bits)
    plus, minus = QUANTISERS[name](x), QUANTISERS[name](-x)
    assert torch.equal(plus.scales, minus.scales)
    signs = 0x80 if name == "Q8" else 0x88
    assert torch.equal(plus.codes ^ signs, minus.codes)


def test_q4c_saturates_beyond_its_largest_scale() -> None:
    x = torch.full((16,), 1e6, dtype=torch.bfloat16)
    assert quantize_q4c(x).dequantize().tolist() == [448.0 * 6] * 16


def test_the_scale_rounds_up_not_to_nearest() -> None:
    x = torch.zeros(32, dtype=torch.bfloat16)
    x[3] = 6.0625  # log2(6.0625/6) rounds to 0, but 6·2^0 does not reach it
    assert scales_of(quantize_q4i(x)) == [2.0]
    x[3] = 6.0
    assert scales_of(quantize_q4i(x)) == [1.0]


@pytest.mark.parametrize("name", QUANTISERS)
def test_a_row_has_the_same_codes_in_any_batch(name: str) -> None:
    x = torch.randn(9, 96, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    whole = QUANTISERS[name](x)
    assert all(torch.equal(QUANTISERS[name](x[i]).codes, whole.codes[i]) for i in range(9))
    assert torch.equal(whole[torch.tensor([7, 0])].dequantize(), whole.dequantize()[[7, 0]])


def test_a_row_takes_the_bytes_the_specification_counts() -> None:
    # Spec §5: 512 + 16 a window row, 256 + 32 a compressed entry, 64 + 4 an index key.
    sizes = [(f.code_bytes(n), f.scale_bytes(n)) for f, n in ((Q8, 512), (Q4C, 512), (Q4I, 128))]
    assert sizes == [(512, 16), (256, 32), (64, 4)]
