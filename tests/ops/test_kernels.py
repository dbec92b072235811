"""Every build of the native kernels gives the bits of the torch twin."""

import pytest
import torch
from torch import Tensor

from shoal.errors import OptionError
from shoal.formats.float8 import E4M3_NAN
from shoal.ops.kernels import Kernels, available_isas
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.weights import BlockScaledWeight, Float4Weight, Float8Weight
from shoal.ops.wide import Wide, dot

WIDE = Wide()


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20261129)


@pytest.fixture(params=available_isas())
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return Kernels(request.param)


def same(found: Tensor, wanted: Tensor) -> bool:
    """Equal bit for bit, any NaN being equal to any other."""
    both_nan = found.isnan() & wanted.isnan()
    signs = torch.signbit(found) == torch.signbit(wanted)
    return found.dtype == wanted.dtype and bool((both_nan | ((found == wanted) & signs)).all())


def test_the_portable_build_is_always_there() -> None:
    assert available_isas()[-1] == "portable"


def test_the_best_instruction_set_is_taken_unless_another_is_named() -> None:
    assert Kernels().isa == available_isas()[0]
    assert Kernels("portable").isa == "portable"


def test_an_instruction_set_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match=r"`sse9` is not one of .*portable"):
        Kernels("sse9")


# Block-scaled products


def codes_of(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """E4M3 codes, all but the NaN ones."""
    codes = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return torch.where((codes & E4M3_NAN) == E4M3_NAN, 0, codes).to(torch.uint8)


def input_of(rows: int, inputs: int, generator: torch.Generator, low: int = 100, high: int = 140) -> Quantized:
    scales = torch.randint(low, high, (rows, inputs // 32), generator=generator, dtype=torch.uint8)
    return Quantized(codes_of((rows, inputs), generator), scales, Q8)


def weight_of(
    kind: str, outputs: int, inputs: int, generator: torch.Generator, low: int = 100, high: int = 140
) -> BlockScaledWeight:
    if kind == "fp8":
        tiles = (-(-outputs // 32), inputs // 32)
        scales = torch.randint(low, high, tiles, generator=generator, dtype=torch.uint8)
        return Float8Weight(codes_of((outputs, inputs), generator), scales)
    scales = torch.randint(low, high, (outputs, inputs // 32), generator=generator, dtype=torch.uint8)
    packed = torch.randint(0, 256, (outputs, inputs // 2), generator=generator, dtype=torch.uint8)
    return Float4Weight(packed, scales)


@pytest.mark.parametrize("kind", ["fp8", "fp4"])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 8, 17, 64, 300])
def test_products_of_any_number_of_rows(kernels: Kernels, kind: str, rows: int, generator: torch.Generator) -> None:
    x, weight = input_of(rows, 160, generator), weight_of(kind, 40, 160, generator)
    assert same(kernels.block_linear(x, weight), WIDE.quantized_linear(x, weight))


@pytest.mark.parametrize("kind", ["fp8", "fp4"])
@pytest.mark.parametrize("inputs", [32, 96, 544, 5120])
def test_products_of_any_width(kernels: Kernels, kind: str, inputs: int, generator: torch.Generator) -> None:
    x, weight = input_of(3, inputs, generator), weight_of(kind, 33, inputs, generator)
    assert same(kernels.block_linear(x, weight), WIDE.quantized_linear(x, weight))


@pytest.mark.parametrize("kind", ["fp8", "fp4"])
@pytest.mark.parametrize(("low", "high"), [(0, 3), (252, 255), (0, 255)])
def test_the_ends_of_the_scales(kernels: Kernels, kind: str, low: int, high: int, generator: torch.Generator) -> None:
    x, weight = input_of(9, 192, generator, low, high), weight_of(kind, 64, 192, generator, low, high)
    assert same(kernels.block_linear(x, weight), WIDE.quantized_linear(x, weight))


@pytest.mark.parametrize("kind", ["fp8", "fp4"])
def test_a_nan_of_the_input_reaches_all_outputs_of_its_row_only(
    kernels: Kernels, kind: str, generator: torch.Generator
) -> None:
    x, weight = input_of(4, 64, generator), weight_of(kind, 40, 64, generator)
    x.codes[1, 5], x.scales[2, 1] = E4M3_NAN, 255
    found = kernels.block_linear(x, weight)
    assert found[1:3].isnan().all()
    assert same(found, WIDE.quantized_linear(x, weight))


def test_weights_at_an_unaligned_address(kernels: Kernels, generator: torch.Generator) -> None:
    room = torch.randint(0, 256, (8 + 64 * 80,), generator=generator, dtype=torch.uint8)
    aligned = weight_of("fp4", 64, 160, generator)
    weight = Float4Weight(room[8:].view(64, 80), aligned.scales)
    x = input_of(2, 160, generator)
    assert same(kernels.block_linear(x, weight), WIDE.quantized_linear(x, weight))


# Float products


@pytest.mark.parametrize("inner", [0, 1, 2, 3, 63, 64, 160, 641])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 3), (0, 4)])
def test_dots_are_halving_sums(
    kernels: Kernels, inner: int, rows: int, columns: int, generator: torch.Generator
) -> None:
    a = torch.randn((2, rows, inner), generator=generator) * 10.0 ** torch.randint(-9, 9, (inner,), generator=generator)
    b = torch.randn((2, columns, inner), generator=generator)
    assert same(kernels.halving_dots(a, b), dot(a[:, :, None], b[:, None]))
