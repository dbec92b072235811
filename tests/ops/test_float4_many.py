"""FP4 products of many rows: every build, thread count and grouping gives the bits of the torch twin."""

import pytest
import torch
from torch import Tensor

from shoal.formats.float8 import E4M3_NAN
from shoal.ops.kernels import Kernels, available_isas
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.weights import Float4Weight
from shoal.ops.wide import Wide

WIDE = Wide()


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20261129)


@pytest.fixture(
    params=[(isa, threads) for isa in available_isas() for threads in (1, 2)], ids=lambda p: f"{p[0]}-{p[1]}"
)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    isa, threads = request.param
    return Kernels(isa, threads=threads)


def bytes_of(shape: tuple[int, ...], low: int, high: int, generator: torch.Generator) -> Tensor:
    return torch.randint(low, high, shape, generator=generator, dtype=torch.uint8)


def input_of(
    rows: int, inputs: int, generator: torch.Generator, low: int = 110, high: int = 119, smallest: int = 0
) -> Quantized:
    """Every E4M3 code but NaN whose magnitude's code is at least `smallest`."""
    magnitudes = bytes_of((rows, inputs), smallest, E4M3_NAN, generator)
    signs = bytes_of((rows, inputs), 0, 2, generator) << 7
    return Quantized(magnitudes | signs, bytes_of((rows, inputs // 32), low, high, generator), Q8)


def weight_of(outputs: int, inputs: int, generator: torch.Generator, low: int = 118, high: int = 127) -> Float4Weight:
    packed = bytes_of((outputs, inputs // 2), 0, 256, generator)
    return Float4Weight(packed, bytes_of((outputs, inputs // 32), low, high, generator))


def same(found: Tensor, wanted: Tensor) -> bool:
    """Equal bit for bit, any NaN being equal to any other."""
    both_nan = found.isnan() & wanted.isnan()
    return bool((both_nan | (found.view(torch.int16) == wanted.view(torch.int16))).all())


@pytest.mark.parametrize("rows", [*range(18), 25, 64, 300])
def test_any_number_of_rows(kernels: Kernels, rows: int, generator: torch.Generator) -> None:
    x, weight = input_of(rows, 160, generator), weight_of(37, 160, generator)
    assert same(kernels.float4_linear(x, weight), WIDE.quantized_linear(x, weight))


@pytest.mark.parametrize("inputs", [32, 64, 544, 1056, 5120])
@pytest.mark.parametrize("outputs", [1, 16, 33])
def test_any_width(kernels: Kernels, inputs: int, outputs: int, generator: torch.Generator) -> None:
    x, weight = input_of(13, inputs, generator), weight_of(outputs, inputs, generator)
    assert same(kernels.float4_linear(x, weight), WIDE.quantized_linear(x, weight))


def test_a_row_is_what_it_is_alone(kernels: Kernels, generator: torch.Generator) -> None:
    x, weight = input_of(29, 320, generator, 0, 255), weight_of(130, 320, generator, 0, 255)
    whole = kernels.float4_linear(x, weight)
    for count in (1, 2, 5, 9, 13):
        assert same(torch.cat([kernels.float4_linear(x[i : i + count], weight) for i in range(0, 29, count)]), whole)


def test_every_build_gives_the_same_bits_whatever_the_scales(generator: torch.Generator) -> None:
    x, weight = input_of(17, 672, generator, 0, 255), weight_of(64, 672, generator, 0, 255)
    portable = Kernels("portable").float4_linear(x, weight)
    assert all(same(Kernels(isa).float4_linear(x, weight), portable) for isa in available_isas())


@pytest.mark.parametrize(("low", "high"), [(0, 9), (0, 255), (246, 255)])
def test_the_ends_of_the_scales(kernels: Kernels, low: int, high: int, generator: torch.Generator) -> None:
    x, weight = input_of(11, 192, generator, low, high), weight_of(48, 192, generator, low, high)
    assert same(kernels.float4_linear(x, weight), WIDE.quantized_linear(x, weight))


@pytest.mark.parametrize("smallest", [0, 8, 32, 40, 120])
def test_values_with_and_without_low_digits(kernels: Kernels, smallest: int, generator: torch.Generator) -> None:
    x, weight = input_of(19, 256, generator, smallest=smallest), weight_of(40, 256, generator)
    assert same(kernels.float4_linear(x, weight), WIDE.quantized_linear(x, weight))


@pytest.mark.parametrize("spread", [0, 18, 19, 32, 33, 60])
def test_blocks_that_cancel_leave_what_is_far_below_them(kernels: Kernels, spread: int) -> None:
    # Blocks 0 and 16 share a lane of the order that few rows take, so float64 loses the rest only in another order.
    x = Quantized(torch.full((9, 17 * 32), 0x7E, dtype=torch.uint8), torch.full((9, 17), 127, dtype=torch.uint8), Q8)
    x.codes[:, 32] = 0x20
    codes = torch.zeros((1, 17 * 16), dtype=torch.uint8)
    codes[0, :16], codes[0, 16], codes[0, -16:] = 0x77, 0x01, 0xFF
    scales = torch.full((1, 17), 127, dtype=torch.uint8)
    scales[0, 1] = 127 - spread
    found = kernels.float4_linear(x, Float4Weight(codes, scales))
    assert (found == 0.125 * 0.5 * 2.0**-spread).all()


def test_the_largest_products_of_a_block_do_not_overflow(kernels: Kernels) -> None:
    x = Quantized(torch.full((12, 5120), 0x7E, dtype=torch.uint8), torch.full((12, 160), 127, dtype=torch.uint8), Q8)
    x.codes[1::2] = 0xFE
    weight = Float4Weight(
        torch.full((33, 2560), 0x77, dtype=torch.uint8), torch.full((33, 160), 127, dtype=torch.uint8)
    )
    found = kernels.float4_linear(x, weight)
    assert (found[0::2] == 448.0 * 6 * 5120).all() and (found[1::2] == -448.0 * 6 * 5120).all()


def test_a_nan_of_the_input_reaches_all_outputs_of_its_row_only(kernels: Kernels, generator: torch.Generator) -> None:
    x, weight = input_of(14, 64, generator), weight_of(40, 64, generator)
    x.codes[1, 5], x.codes[7, 63], x.scales[12, 1] = E4M3_NAN, E4M3_NAN | 0x80, 255
    found = kernels.float4_linear(x, weight)
    assert found[[1, 7, 12]].isnan().all()
    assert same(found, WIDE.quantized_linear(x, weight))


def test_zeros_give_zero_without_a_sign(kernels: Kernels, generator: torch.Generator) -> None:
    x, weight = input_of(9, 96, generator), weight_of(16, 96, generator)
    x.codes[:4] = 0x80
    assert (kernels.float4_linear(x, weight)[:4].view(torch.int16) == 0).all()


@pytest.mark.parametrize("offset", [1, 8])
def test_unaligned_addresses(kernels: Kernels, offset: int, generator: torch.Generator) -> None:
    def moved(values: Tensor) -> Tensor:
        room = torch.empty(offset + values.numel(), dtype=torch.uint8)
        room[offset:] = values.flatten()
        return room[offset:].view(values.shape)

    x, weight = input_of(10, 160, generator), weight_of(48, 160, generator)
    x, weight = Quantized(moved(x.codes), moved(x.scales), Q8), Float4Weight(moved(weight.codes), moved(weight.scales))
    assert same(kernels.float4_linear(x, weight), WIDE.quantized_linear(x, weight))
