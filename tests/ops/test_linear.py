"""Dense products on the native kernels: one order of sums on every build, and as near to wide as that order allows."""

import pytest
import torch
from torch import Tensor

from shoal.formats.float8 import E4M3_NAN, decode_e4m3
from shoal.ops.kernels import Kernels, available_isas
from shoal.ops.native import Native
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.weights import Float8Weight, dequantize_weight
from shoal.ops.wide import Wide

WIDE = Wide()
LANES, TILE = 16, 32
# At most half a unit in the last place, relative to the value.
FLOAT32_ROUNDING, BFLOAT16_ROUNDING = 2.0**-24, 2.0**-8
SIZES = [(1, 32), (31, 64), (32, 96), (70, 544), (36, 1312)]


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20261129)


@pytest.fixture(params=[(isa, threads) for isa in available_isas() for threads in (1, 2)], ids=str)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return Kernels(*request.param)


def same(found: Tensor, wanted: Tensor) -> bool:
    """The same bits, NaN included."""
    integers = torch.int16 if found.dtype == torch.bfloat16 else torch.int32
    return found.dtype == wanted.dtype and torch.equal(found.view(integers), wanted.view(integers))


def codes_of(generator: torch.Generator, *shape: int) -> Tensor:
    """E4M3 codes, all but the NaN ones."""
    codes = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return torch.where((codes & E4M3_NAN) == E4M3_NAN, 0, codes).to(torch.uint8)


def scales_of(generator: torch.Generator, low: int, high: int, *shape: int) -> Tensor:
    return torch.randint(low, high, shape, generator=generator, dtype=torch.uint8)


def input_of(generator: torch.Generator, rows: int, inputs: int, low: int = 110, high: int = 125) -> Quantized:
    return Quantized(codes_of(generator, rows, inputs), scales_of(generator, low, high, rows, inputs // 32), Q8)


def weight_of(generator: torch.Generator, outputs: int, inputs: int, low: int = 110, high: int = 125) -> Float8Weight:
    tiles = (-(-outputs // TILE), inputs // TILE)
    return Float8Weight(codes_of(generator, outputs, inputs), scales_of(generator, low, high, *tiles))


def bfloat16_of(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator).to(torch.bfloat16)


def lanes_dot(x: Tensor, weight: Tensor) -> Tensor:
    """The written order, in float64 rounded to float32 at every step: exact where products have at most 29 bits."""
    rows, inputs = x.shape
    acc = torch.zeros((rows, weight.shape[0], LANES))
    for k in range(inputs):
        product = x[:, None, k].double() * weight[None, :, k].double()
        acc[:, :, k % LANES] = (product + acc[:, :, k % LANES].double()).float()
    for half in (8, 4, 2, 1):
        acc = acc[..., :half] + acc[..., half:]
    return acc[..., 0]


def within_the_order(found: Tensor, wanted: Tensor, x: Tensor, weight: Tensor, rounding: float) -> bool:
    """|found - wanted| <= (K / 16 + 4) * 2^-24 * sum |x| |w| before both are rounded.

    Every term passes K / 16 roundings in its lane and 4 in the tree. The last rounding moves each by
    `rounding` of itself.
    """
    inputs = x.shape[1]
    magnitudes = x.double().abs() @ weight.double().abs().T
    order = (-(-inputs // LANES) + 4) * FLOAT32_ROUNDING * magnitudes
    return bool(
        ((found.double() - wanted.double()).abs() <= order + 2 * rounding * (wanted.double().abs() + order)).all()
    )


def every_operator(kernels: Kernels, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Results of all operators on `rows` rows, with tails and partial tiles; equal operands for equal generators."""
    q8, bf16, grouped = (
        input_of(generator, 300, 416),
        bfloat16_of(generator, 300, 157),
        bfloat16_of(generator, 300, 3, 64),
    )
    one, two = weight_of(generator, 39, 416), weight_of(generator, 6, 416)
    first, second = kernels.float8_linears(q8[:rows], [one, two])
    weight, weight_float32 = bfloat16_of(generator, 21, 157), torch.randn((21, 157), generator=generator)
    product, mean_square = kernels.float32_linear(bf16[:rows], weight_float32)
    return {
        "first": first,
        "second": second,
        "alone": kernels.float8_linear(q8[:rows], one),
        "grouped": kernels.grouped_linear(grouped[:rows], weight_of(generator, 3 * 20, 64)),
        "bfloat16": kernels.bf16_linear(bf16[:rows], weight),
        "head": kernels.bf16_linear(bf16[:rows], weight, torch.float32),
        "float32": product,
        "mean_square": mean_square,
    }


@pytest.fixture(scope="module")
def three_hundred_rows() -> dict[str, Tensor]:
    return every_operator(Kernels(), 300, torch.Generator().manual_seed(20261129))


@pytest.mark.parametrize("rows", [*range(18), 64, 300])
def test_a_row_has_the_same_bits_in_any_company_on_any_build(
    kernels: Kernels, rows: int, generator: torch.Generator, three_hundred_rows: dict[str, Tensor]
) -> None:
    for name, found in every_operator(kernels, rows, generator).items():
        assert same(found, three_hundred_rows[name][:rows]), name


def test_more_rows_than_are_held_at_once(kernels: Kernels, generator: torch.Generator) -> None:
    x, weight = input_of(generator, 1, 32), weight_of(generator, 2, 32)
    rows = Quantized(x.codes.repeat(1100, 1), x.scales.repeat(1100, 1), Q8)
    assert same(kernels.float8_linear(rows, weight), kernels.float8_linear(x, weight).repeat(1100, 1))


@pytest.mark.parametrize("rows", [1, 5])
def test_products_are_sums_of_sixteen_lanes(kernels: Kernels, rows: int, generator: torch.Generator) -> None:
    x, weight = input_of(generator, rows, 96), weight_of(generator, 5, 96)
    wanted = lanes_dot(x.dequantize(), dequantize_weight(weight))
    assert same(kernels.float8_linear(x, weight), wanted.to(torch.bfloat16))
    x, weight = bfloat16_of(generator, rows, 83), bfloat16_of(generator, 5, 83)
    assert same(kernels.bf16_linear(x, weight, torch.float32), lanes_dot(x, weight))
    assert same(kernels.float32_linear(x, weight.float())[0], lanes_dot(x, weight))


def test_the_mean_square_is_a_sum_of_sixteen_lanes(kernels: Kernels, generator: torch.Generator) -> None:
    x = bfloat16_of(generator, 3, 83)
    wanted = torch.stack([lanes_dot(row[None], row[None])[0, 0] for row in x]) / 83
    assert same(kernels.float32_linear(x, torch.ones((1, 83)))[1], wanted)


@pytest.mark.parametrize(("outputs", "inputs"), SIZES)
@pytest.mark.parametrize("rows", [1, 4])
def test_fp8_products_are_near_wide(
    kernels: Kernels, rows: int, outputs: int, inputs: int, generator: torch.Generator
) -> None:
    x, weight = input_of(generator, rows, inputs), weight_of(generator, outputs, inputs)
    found, wanted = kernels.float8_linear(x, weight), WIDE.quantized_linear(x, weight)
    assert within_the_order(found, wanted, x.dequantize(), dequantize_weight(weight), BFLOAT16_ROUNDING)


@pytest.mark.parametrize(("groups", "outputs"), [(1, 40), (2, 32), (3, 20), (4, 1)])
@pytest.mark.parametrize("rows", [1, 4])
def test_grouped_products_are_near_wide(
    kernels: Kernels, rows: int, groups: int, outputs: int, generator: torch.Generator
) -> None:
    x, weight = bfloat16_of(generator, rows, groups, 96), weight_of(generator, groups * outputs, 96)
    expanded = dequantize_weight(weight).unflatten(0, (groups, outputs))
    found, wanted = kernels.grouped_linear(x, weight), WIDE.grouped_linear(x, weight)
    for group in range(groups):
        assert within_the_order(found[:, group], wanted[:, group], x[:, group], expanded[group], BFLOAT16_ROUNDING)


@pytest.mark.parametrize("inputs", [0, 1, 15, 16, 17, 48, 640, 1301])
@pytest.mark.parametrize("rows", [1, 4])
def test_float_products_of_any_width_are_near_wide(
    kernels: Kernels, rows: int, inputs: int, generator: torch.Generator
) -> None:
    native = Native(kernels.isa)
    x, weight = bfloat16_of(generator, rows, inputs), bfloat16_of(generator, 11, inputs)
    bfloat16, wide = native.linear_bfloat16(x, weight), WIDE.linear_bfloat16(x, weight)
    assert within_the_order(bfloat16, wide, x, weight, BFLOAT16_ROUNDING)
    assert within_the_order(native.head(x, weight), WIDE.head(x, weight), x, weight, FLOAT32_ROUNDING)
    precise = torch.randn((7, inputs), generator=generator)
    found, wanted = native.linear_float32(x, precise), WIDE.linear_float32(x, precise)
    assert within_the_order(found, wanted, x, precise, FLOAT32_ROUNDING)


# Scaled inputs lose bits from (52, 56) down and overflow from (180, 187) up, where results are still numbers.
@pytest.mark.parametrize(("low", "high"), [(0, 3), (52, 56), (180, 187), (245, 255), (0, 255)])
def test_scales_at_the_ends_give_one_row_what_they_give_many(
    kernels: Kernels, low: int, high: int, generator: torch.Generator
) -> None:
    x, weight = input_of(generator, 7, 640, low, high), weight_of(generator, 40, 640, low, high)
    found = kernels.float8_linear(x, weight)
    assert same(found, torch.cat([kernels.float8_linear(x[row : row + 1], weight) for row in range(7)]))
    assert same(found, Kernels().float8_linear(x, weight))


@pytest.mark.parametrize("exponent", [-133, -126, -60, 60, 126])
def test_tiny_and_huge_inputs_of_a_grouped_product_give_one_row_what_they_give_many(
    kernels: Kernels, exponent: int, generator: torch.Generator
) -> None:
    x = bfloat16_of(generator, 5, 2, 64)
    x[2] = (x[2].double() * 2.0**exponent).to(torch.bfloat16)
    weight = weight_of(generator, 64, 64, 90, 150)
    found = kernels.grouped_linear(x, weight)
    assert same(found, torch.cat([kernels.grouped_linear(x[row : row + 1], weight) for row in range(5)]))
    assert same(found, Kernels().grouped_linear(x, weight))


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("low", "high"), [(20, 30), (200, 210)])
def test_scales_far_from_one_are_near_wide(
    kernels: Kernels, rows: int, low: int, high: int, generator: torch.Generator
) -> None:
    x, weight = input_of(generator, rows, 96, 254 - high, 254 - low), weight_of(generator, 40, 96, low, high)
    found, wanted = kernels.float8_linear(x, weight), WIDE.quantized_linear(x, weight)
    assert within_the_order(found, wanted, x.dequantize(), dequantize_weight(weight), BFLOAT16_ROUNDING)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_a_nan_of_the_input_reaches_all_outputs_of_its_row_only(
    kernels: Kernels, rows: int, code: int, generator: torch.Generator
) -> None:
    weight = weight_of(generator, 40, 64)
    for position in (0, 15, 16, 37):
        x = input_of(generator, rows, 64)
        x.codes[-1, position] = code
        nan = kernels.float8_linear(x, weight).isnan()
        assert nan[-1].all() and not nan[:-1].any()
    x = input_of(generator, rows, 64)
    x.scales[-1, 1] = 255
    nan = kernels.float8_linear(x, weight).isnan()
    assert nan[-1].all() and not nan[:-1].any()


def test_every_code_of_a_weight_is_itself(kernels: Kernels) -> None:
    codes = torch.tensor([code for code in range(256) if code & E4M3_NAN != E4M3_NAN], dtype=torch.uint8)
    weight = Float8Weight(
        torch.zeros((codes.numel(), 32), dtype=torch.uint8), torch.full((8, 1), 127, dtype=torch.uint8)
    )
    ones = Quantized(torch.full((4, 32), 0x38, dtype=torch.uint8), torch.full((4, 1), 127, dtype=torch.uint8), Q8)
    for place in (0, 21, 31):
        weight.codes.zero_()[:, place] = codes
        for rows in (1, 4):
            assert torch.equal(kernels.float8_linear(ones[:rows], weight).float(), decode_e4m3(codes).expand(rows, -1))


@pytest.mark.parametrize("rows", [1, 4])
def test_operands_at_unaligned_addresses(kernels: Kernels, rows: int, generator: torch.Generator) -> None:
    def moved(tensor: Tensor) -> Tensor:
        room = torch.empty(8 + tensor.nbytes, dtype=torch.uint8)
        room[8:] = tensor.contiguous().view(torch.uint8).flatten()
        return room[8:].view(tensor.dtype).view(tensor.shape)

    x, weight = input_of(generator, rows, 160), weight_of(generator, 40, 160)
    elsewhere = Quantized(moved(x.codes), moved(x.scales), Q8)
    weight_elsewhere = Float8Weight(moved(weight.codes), moved(weight.scales))
    assert same(kernels.float8_linear(elsewhere, weight_elsewhere), kernels.float8_linear(x, weight))
    a, b = bfloat16_of(generator, rows, 75), bfloat16_of(generator, 9, 75)
    assert same(kernels.bf16_linear(moved(a), moved(b)), kernels.bf16_linear(a, b))
    assert same(kernels.float32_linear(moved(a), moved(b.float()))[0], kernels.float32_linear(a, b.float())[0])


def test_no_outputs_and_no_weights_are_nothing(kernels: Kernels, generator: torch.Generator) -> None:
    x = input_of(generator, 4, 64)
    assert kernels.float8_linears(x, []) == ()
    assert kernels.float8_linear(x, weight_of(generator, 0, 64)).shape == (4, 0)


def test_one_call_does_all_weights_of_an_input(generator: torch.Generator) -> None:
    kernels = Kernels()
    kernels.float8_linears(input_of(generator, 1, 64), [weight_of(generator, 8, 64)] * 3)
    assert kernels.native.calls == 1
