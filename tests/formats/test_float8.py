"""E4M3 and E8M0 over all 256 codes."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shoal.formats.float8 import (
    E4M3_MAX,
    decode_e4m3,
    decode_e8m0,
    encode_e4m3,
    encode_e8m0,
    power_of_two,
)

CODES = torch.arange(256, dtype=torch.uint8)
FINITE = [code for code in range(256) if code & 0x7F != 0x7F]


def e4m3(code: int) -> Fraction:
    """The definition of spec §3."""
    exponent, mantissa = (code >> 3) & 15, Fraction(code & 7, 8)
    normal = Fraction(2) ** (exponent - 7) * (1 + mantissa)
    magnitude = normal if exponent else Fraction(2) ** -6 * mantissa
    return -magnitude if code & 0x80 else magnitude


def test_every_e4m3_code_decodes_as_defined() -> None:
    values = decode_e4m3(CODES).tolist()
    assert [values[code] for code in FINITE] == [float(e4m3(code)) for code in FINITE]
    assert math.isnan(values[0x7F]) and math.isnan(values[0xFF])


def test_e4m3_decodes_as_torch_does() -> None:
    found, wanted = decode_e4m3(CODES), CODES.view(torch.float8_e4m3fn).float()
    assert torch.equal(found[FINITE].view(torch.int32), wanted[FINITE].view(torch.int32))


def test_e4m3_encoding_undoes_decoding_but_for_nan() -> None:
    assert encode_e4m3(decode_e4m3(CODES))[FINITE].tolist() == FINITE
    assert (encode_e4m3(decode_e4m3(CODES))[[0x7F, 0xFF]] & 0x7F).tolist() == [0x7F, 0x7F]


def test_the_extremes_of_e4m3() -> None:
    assert decode_e4m3(CODES)[[0x7E, 0x01, 0x08]].tolist() == [448.0, 2.0**-9, 2.0**-6]


@pytest.mark.parametrize("code", range(0x7E))
def test_a_midpoint_goes_to_the_even_code_and_its_neighbours_to_theirs(code: int) -> None:
    midpoint = torch.tensor([float((e4m3(code) + e4m3(code + 1)) / 2)])
    below = torch.nextafter(midpoint, torch.tensor([0.0]))
    above = torch.nextafter(midpoint, torch.tensor([torch.inf]))
    wanted = [code, code + code % 2, code + 1]
    assert encode_e4m3(torch.cat((below, midpoint, above))).tolist() == wanted
    assert encode_e4m3(-torch.cat((below, midpoint, above))).tolist() == [c + 0x80 for c in wanted]


@given(st.floats(width=32, allow_nan=False))
def test_the_nearest_e4m3_code_is_chosen_and_large_values_saturate(value: float) -> None:
    found = e4m3(encode_e4m3(torch.tensor([value])).item())
    clamped = Fraction(max(-E4M3_MAX, min(E4M3_MAX, value)))
    assert abs(found - clamped) == min(abs(e4m3(code) - clamped) for code in FINITE)


def test_the_sign_of_zero_stays() -> None:
    assert encode_e4m3(torch.tensor([0.0, -0.0, -1e-9])).tolist() == [0, 0x80, 0x80]


def test_every_e8m0_code_is_a_power_of_two() -> None:
    values = decode_e8m0(CODES).tolist()
    assert [Fraction(value) for value in values[:255]] == [Fraction(2) ** (code - 127) for code in range(255)]
    assert math.isnan(values[255])


def test_e8m0_code_zero_is_two_to_the_minus_127_also_in_float32() -> None:
    assert decode_e8m0(CODES)[0].float().item() == 2.0**-127


def test_e8m0_encoding_undoes_decoding() -> None:
    assert torch.equal(encode_e8m0(torch.arange(-127, 128)), CODES[:255])


def test_a_power_of_two_is_exact_over_all_normal_exponents() -> None:
    exponents = torch.arange(-1022, 1024)
    assert power_of_two(exponents).tolist() == [math.ldexp(1.0, e) for e in exponents.tolist()]


def test_the_released_tile_decodes_as_published() -> None:
    codes = torch.tensor(list(bytes.fromhex("d871f2797069f0e5")), dtype=torch.uint8)
    expected = [-0.00390625, 0.03515625, -0.0390625, 0.0703125, 0.03125, 0.017578125, -0.03125, -0.0126953125]
    assert (decode_e4m3(codes) * 2.0 ** (0x73 - 127)).tolist() == expected
