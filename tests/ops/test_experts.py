"""Routed experts, their sum and SwiGLU with Q8: every build, any rows and threads, the bits of wide arithmetic."""

import pytest
import torch
from torch import Tensor

from shoal.formats.float8 import E4M3_NAN
from shoal.ops.expert import apply_expert, swiglu
from shoal.ops.kernels import Kernels, available_isas
from shoal.ops.mixture import ExpertWeights as Expert
from shoal.ops.quantize import Q8, Quantized, quantize_q8_torch
from shoal.ops.weights import Float4Weight
from shoal.ops.wide import Wide

WIDE = Wide()
LIMIT = 10.0
DIM, INTER = 608, 352  # 19 and 11 blocks: not whole groups of 8 or 16


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20261129)


@pytest.fixture(params=[(isa, threads) for isa in available_isas() for threads in (1, 2)], ids=str)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return Kernels(*request.param)


def matrix(outputs: int, inputs: int, generator: torch.Generator, low: int = 116, high: int = 124) -> Float4Weight:
    codes = torch.randint(0, 256, (outputs, inputs // 2), generator=generator, dtype=torch.uint8)
    scales = torch.randint(low, high, (outputs, inputs // 32), generator=generator, dtype=torch.uint8)
    return Float4Weight(codes, scales)


def expert_of(
    generator: torch.Generator, dim: int = DIM, inter: int = INTER, low: int = 116, high: int = 124
) -> Expert:
    shapes = (inter, dim), (dim, inter), (inter, dim)
    return Expert(*(matrix(*shape, generator, low, high) for shape in shapes))


def rows_of(count: int, generator: torch.Generator, dim: int = DIM) -> Quantized:
    """Quantised rows, some of whose values are thousands of times smaller than others of their block."""
    small = torch.where(torch.rand((count, dim), generator=generator) < 0.05, 2.0**-11, 1.0)
    return quantize_q8_torch((torch.randn((count, dim), generator=generator) * small).to(torch.bfloat16))


def weights_of(count: int, generator: torch.Generator) -> Tensor:
    return torch.rand(count, generator=generator) + 0.1


def integers(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def alone(kernels: Kernels, x: Quantized, expert: Expert, weights: Tensor) -> Tensor:
    places = torch.arange(x.codes.shape[0], dtype=torch.int32)
    return kernels.routed_experts(x, [expert], [len(places)], places, weights, places, LIMIT)


def wide(x: Quantized, expert: Expert, weights: Tensor) -> Tensor:
    return apply_expert(x, expert.w1, expert.w2, expert.w3, weights, LIMIT, WIDE)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 9, 13, 17, 64, 300])
def test_an_expert_of_any_number_of_rows_has_the_bits_of_wide(
    kernels: Kernels, count: int, generator: torch.Generator
) -> None:
    x, expert, weights = rows_of(count, generator), expert_of(generator), weights_of(count, generator)
    assert torch.equal(alone(kernels, x, expert, weights), wide(x, expert, weights))


@pytest.mark.parametrize(("dim", "inter"), [(32, 32), (64, 32), (256, 512), (544, 96), (5120, 64)])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_matrices_of_any_size(kernels: Kernels, dim: int, inter: int, count: int, generator: torch.Generator) -> None:
    x, expert = rows_of(count, generator, dim), expert_of(generator, dim, inter)
    weights = weights_of(count, generator)
    assert torch.equal(alone(kernels, x, expert, weights), wide(x, expert, weights))


def test_several_experts_put_their_rows_where_they_are_told(kernels: Kernels, generator: torch.Generator) -> None:
    x, experts = rows_of(12, generator), [expert_of(generator) for _ in range(4)]
    taken = [[3], [0, 3], [], list(range(12))]
    row_ids = integers(*(row for rows in taken for row in rows))
    slots = torch.randperm(len(row_ids), generator=generator).to(torch.int32)
    weights = weights_of(len(row_ids), generator)
    found = kernels.routed_experts(x, experts, [len(rows) for rows in taken], row_ids, weights, slots, LIMIT)
    parts = zip(taken, experts, weights.split([len(rows) for rows in taken]), strict=True)
    wanted = torch.cat([wide(x[rows], expert, part) for rows, expert, part in parts])
    assert torch.equal(found[slots.long()], wanted)


def test_no_expert_at_all_is_no_output(kernels: Kernels, generator: torch.Generator) -> None:
    nothing = integers()
    found = kernels.routed_experts(rows_of(3, generator), [], [], nothing, nothing.float(), nothing, LIMIT)
    assert found.shape == (0, DIM)


@pytest.mark.parametrize(("low", "high"), [(0, 12), (120, 132), (236, 255)])
@pytest.mark.parametrize("count", [1, 3, 10])
def test_the_ends_of_the_scales(kernels: Kernels, low: int, high: int, count: int, generator: torch.Generator) -> None:
    # Spreads below 18 bits: sums are exact, whatever their order. Outputs are subnormal, normal, or beyond bf16.
    x, weights = rows_of(count, generator), weights_of(count, generator)
    ordinary = expert_of(generator)
    expert = Expert(ordinary.w1, matrix(DIM, INTER, generator, low, high), ordinary.w3)
    wanted = wide(x, expert, weights)
    assert not wanted.isnan().any() and wanted.count_nonzero() > 0
    assert torch.equal(alone(kernels, x, expert, weights), wanted)


@pytest.mark.parametrize("count", [1, 4, 9])
def test_builds_agree_where_the_order_of_a_sum_matters(count: int, generator: torch.Generator) -> None:
    x, expert, weights = rows_of(count, generator), expert_of(generator, low=0, high=255), weights_of(count, generator)
    scales = torch.randint(0, 255, x.scales.shape, generator=generator, dtype=torch.uint8)
    x = Quantized(x.codes, scales, Q8)
    found = [alone(Kernels(isa), x, expert, weights).view(torch.int16) for isa in available_isas()]
    assert all(torch.equal(bits, found[0]) for bits in found)


@pytest.mark.parametrize("count", [9, 30])
def test_a_row_where_the_order_of_a_sum_matters_is_as_it_is_alone(
    kernels: Kernels, count: int, generator: torch.Generator
) -> None:
    x, weights = rows_of(count, generator), weights_of(count, generator)
    ordinary = expert_of(generator)
    expert = Expert(ordinary.w1, matrix(DIM, INTER, generator, 60, 160), ordinary.w3)
    rows = [
        alone(kernels, Quantized(x.codes[i : i + 1], x.scales[i : i + 1], Q8), expert, weights[i : i + 1])
        for i in range(count)
    ]
    assert torch.equal(alone(kernels, x, expert, weights), torch.cat(rows))


@pytest.mark.parametrize("count", [1, 3, 10])
def test_all_codes_at_once_do_not_overflow(kernels: Kernels, count: int, generator: torch.Generator) -> None:
    x = Quantized(torch.full((count, DIM), 0x7E, dtype=torch.uint8), torch.full((count, DIM // 32), 127).byte(), Q8)
    for code in (0x77, 0xFF):  # 6 and -6
        codes = torch.full((INTER, DIM // 2), code, dtype=torch.uint8)
        same = Float4Weight(codes, torch.full((INTER, DIM // 32), 105, dtype=torch.uint8))
        expert = Expert(same, matrix(DIM, INTER, generator), same)
        weights = weights_of(count, generator)
        assert torch.equal(alone(kernels, x, expert, weights), wide(x, expert, weights))


@pytest.mark.parametrize("count", [2, 6, 12])
def test_a_nan_of_the_input_reaches_its_row_only(kernels: Kernels, count: int, generator: torch.Generator) -> None:
    x, expert, weights = rows_of(count, generator), expert_of(generator), weights_of(count, generator)
    whole = alone(kernels, x, expert, weights)
    x.codes[1, 70] = E4M3_NAN
    found = alone(kernels, x, expert, weights)
    assert found[1].isnan().all()
    found[1] = whole[1]
    assert torch.equal(found, whole)


def test_weights_at_an_unaligned_address(kernels: Kernels, generator: torch.Generator) -> None:
    def moved(weight: Float4Weight) -> Float4Weight:
        parts = []
        for part in (weight.codes, weight.scales):
            room = torch.empty(part.numel() + 9, dtype=torch.uint8)
            parts.append(room[9:].view(part.shape).copy_(part))
        return Float4Weight(*parts)

    x, expert, weights = rows_of(3, generator), expert_of(generator), weights_of(3, generator)
    shifted = Expert(moved(expert.w1), moved(expert.w2), moved(expert.w3))
    assert torch.equal(alone(kernels, x, shifted, weights), alone(kernels, x, expert, weights))


@pytest.mark.parametrize("limit", [LIMIT, 0.5, 0.0])
@pytest.mark.parametrize("weighted", [True, False])
def test_swiglu_and_its_codes(kernels: Kernels, limit: float, weighted: bool, generator: torch.Generator) -> None:
    gate, up = (torch.randn((2, 5, 1056), generator=generator) * torch.tensor([0.01, 1.0, 30.0]).repeat(352)).to(
        torch.bfloat16
    )
    weights = weights_of(5, generator) if weighted else None
    found = kernels.swiglu_q8(gate, up, weights, limit)
    wanted = quantize_q8_torch(swiglu(gate, up, weights, limit, WIDE))
    assert torch.equal(found.codes, wanted.codes) and torch.equal(found.scales, wanted.scales)


def test_a_group_that_holds_no_number_says_so(kernels: Kernels) -> None:
    gate, up = torch.ones((2, 1, 96), dtype=torch.bfloat16)
    gate[0, 40] = torch.nan
    assert kernels.swiglu_q8(gate, up, None, LIMIT).scales.eq(255).tolist() == [[False, True, False]]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("tokens", "active"), [(0, 6), (1, 6), (3, 1), (17, 6)])
def test_outputs_are_added_in_the_order_of_their_slots(
    kernels: Kernels, tokens: int, active: int, shared: bool, generator: torch.Generator
) -> None:
    outputs = torch.randn((tokens * active, 700), generator=generator).to(torch.bfloat16)
    own = torch.randn((tokens, 700), generator=generator).to(torch.bfloat16) if shared else None
    slots = torch.randperm(tokens * active, generator=generator).to(torch.int32).view(tokens, active)
    total = torch.zeros((tokens, 700))
    for column in slots.unbind(1):
        total = total + outputs[column.long()].float()
    wanted = (total if own is None else total + own.float()).to(torch.bfloat16)
    assert torch.equal(kernels.sum_experts(outputs, slots, own), wanted)
