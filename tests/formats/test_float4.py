"""E2M1 over all its codes, and its packing."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shoal.formats.float4 import E2M1_MAX, MAGNITUDES, decode_e2m1, encode_e2m1, pack_e2m1, unpack_e2m1

CODES = torch.arange(16, dtype=torch.uint8)
# (boundary, code of a value exactly on it): spec §3.1's list, written again rather than imported.
BOUNDARIES = ((0.25, 0), (0.75, 2), (1.25, 2), (1.75, 4), (2.5, 4), (3.5, 6), (5.0, 6))


def test_codes_are_sign_two_exponent_bits_and_one_of_mantissa() -> None:
    for code in range(16):
        exponent, mantissa = (code >> 1) & 3, code & 1
        normal = Fraction(2) ** (exponent - 1) * (1 + Fraction(mantissa, 2))
        magnitude = normal if exponent else Fraction(mantissa, 2)
        assert MAGNITUDES[code & 7] == magnitude
        assert decode_e2m1(CODES)[code].item() == (-magnitude if code & 8 else magnitude)


def test_code_eight_is_minus_zero() -> None:
    assert torch.signbit(decode_e2m1(CODES))[8]


def test_encoding_undoes_decoding() -> None:
    assert torch.equal(encode_e2m1(decode_e2m1(CODES)), CODES)


@pytest.mark.parametrize(("boundary", "code"), BOUNDARIES)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_tie_goes_to_the_even_code(boundary: float, code: int, sign: int) -> None:
    tie = torch.tensor([boundary * sign])
    below = torch.nextafter(tie, torch.tensor([0.0]))
    above = torch.nextafter(tie, torch.tensor([torch.inf * sign]))
    lower = BOUNDARIES.index((boundary, code))
    signed = 8 if sign < 0 else 0
    assert encode_e2m1(torch.cat((below, tie, above))).tolist() == [
        lower + signed,
        code + signed,
        lower + 1 + signed,
    ]


@given(st.floats(width=32, allow_nan=False))
def test_the_nearest_code_is_chosen(value: float) -> None:
    code = encode_e2m1(torch.tensor([value]))
    clamped = Fraction(max(-E2M1_MAX, min(E2M1_MAX, value)))
    distances = [abs(Fraction(v) - clamped) for v in decode_e2m1(CODES).tolist()]
    assert distances[code.item()] == min(distances)
    assert bool(code.item() & 8) == bool(torch.signbit(torch.tensor(value)))


def test_the_even_column_is_in_the_low_nibble() -> None:
    assert pack_e2m1(torch.tensor([[1, 2, 15, 0]], dtype=torch.uint8)).tolist() == [[0x21, 0x0F]]


def test_every_byte_unpacks_and_packs_to_itself() -> None:
    packed = torch.arange(256, dtype=torch.uint8)[:, None]
    assert torch.equal(pack_e2m1(unpack_e2m1(packed)), packed)
    assert unpack_e2m1(packed)[0xA7].tolist() == [7, 10]


def test_the_released_expert_bytes_decode_as_published() -> None:
    packed = torch.tensor(list(bytes.fromhex("a0a8ec4aadaf42aa")), dtype=torch.uint8)
    expected = [0, -1, 0, -1, -2, -4, -1, 2, -3, -1, -6, -1, 1, 2, -1, -1]
    assert (decode_e2m1(unpack_e2m1(packed)) * 2.0 ** (0x78 - 127)).tolist() == [v / 128 for v in expected]
