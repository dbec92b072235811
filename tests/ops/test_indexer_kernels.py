"""Every build of the native indexer gives what the torch twin gives under wide arithmetic."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from shoal.formats.float4 import encode_e2m1, pack_e2m1
from shoal.ops.index_scores import ABSENT, index_scores, select_torch
from shoal.ops.index_selection import CandidateBlocks, IndexSelection
from shoal.ops.kernels import Kernels, available_isas
from shoal.ops.quantize import Q4I, Quantized, quantize_q4i
from shoal.ops.wide import Wide

W = Wide()


@pytest.fixture(scope="module")
def builds() -> list[Kernels]:
    return [Kernels(isa, threads) for isa in available_isas() for threads in (1, 2)]


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20261129)


def normal(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator).to(torch.bfloat16)


Inputs = tuple[Quantized, Quantized, Tensor, Tensor]


def inputs_of(tokens: int, positions: int, generator: torch.Generator, heads: int = 6, dim: int = 64) -> Inputs:
    """Queries, keys, weights and visibilities from nothing to everything."""
    q = quantize_q4i(normal(tokens, heads, dim, generator=generator))
    keys = quantize_q4i(normal(positions, dim, generator=generator))
    visible = torch.randint(0, positions + 1, (tokens,), generator=generator)
    visible[-1:] = positions
    return q, keys, normal(tokens, heads, generator=generator), visible


def same(found: IndexSelection, wanted: IndexSelection) -> bool:
    """Equal selections and candidates, and the scores' bits but for the sign of zero."""
    pairs = ((found.selected, wanted.selected), (found.candidates, wanted.candidates), (found.scores, wanted.scores))
    return all((a is None and b is None) or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)


BLOCKS = CandidateBlocks(8, 4)


def wrong_builds(
    builds: list[Kernels],
    inputs: Inputs,
    count: int = 20,
    blocks: CandidateBlocks | None = BLOCKS,
    candidates: Tensor | None = None,
) -> list[tuple[str, int]]:
    """Instruction set and threads of those that differ from the twin."""
    wanted = select_torch(*inputs, count, W, candidates, blocks, wants_scores=True)
    assert wanted.scores is not None and not wanted.scores.isnan().any()
    return [
        (kernels.isa, kernels.native.threads)
        for kernels in builds
        if not same(kernels.index_select(*inputs, count, candidates, blocks, wants_scores=True), wanted)
    ]


@pytest.mark.parametrize("tokens", [0, 1, 2, 3, 7, 8, 17, 65])
@pytest.mark.parametrize("positions", [0, 1, 15, 16, 100])
def test_tokens_and_positions_of_any_number(
    builds: list[Kernels], tokens: int, positions: int, generator: torch.Generator
) -> None:
    assert not wrong_builds(builds, inputs_of(tokens, positions, generator))


@pytest.mark.parametrize("heads", [0, 1, 3, 4, 33])
@pytest.mark.parametrize("dim", [32, 96, 128, 544])
def test_heads_of_any_number_and_width(builds: list[Kernels], heads: int, dim: int, generator: torch.Generator) -> None:
    assert not wrong_builds(builds, inputs_of(3, 40, generator, heads, dim))


def test_the_released_shape(builds: list[Kernels], generator: torch.Generator) -> None:
    assert not wrong_builds(builds, inputs_of(2, 1500, generator, heads=32, dim=128), 512, CandidateBlocks(8, 100))


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 300])
def test_counts_below_and_above_what_is_there(builds: list[Kernels], count: int, generator: torch.Generator) -> None:
    assert not wrong_builds(builds, inputs_of(3, 100, generator), count, CandidateBlocks(3, count))


def test_candidates_that_cover_some_groups_wholly_and_some_not_at_all(
    builds: list[Kernels], generator: torch.Generator
) -> None:
    inputs = inputs_of(9, 203, generator)
    candidates = (torch.rand((9, 26), generator=generator) < 0.2).repeat_interleave(8, dim=1)[:, :203]
    for count in (10, 60):
        assert not wrong_builds(builds, inputs, count, candidates=candidates)


def test_what_is_not_asked_for_is_not_given_and_changes_nothing(
    builds: list[Kernels], generator: torch.Generator
) -> None:
    inputs = inputs_of(5, 60, generator)
    wanted = select_torch(*inputs, 20, W)
    assert wanted.candidates is None and wanted.scores is None
    assert all(same(kernels.index_select(*inputs, 20), wanted) for kernels in builds)


def coarse(rows: Quantized) -> Quantized:
    """The same rows with one scale: few distinct scores."""
    return replace(rows, codes=rows.codes & 0x99, scales=torch.full_like(rows.scales, 127))


def test_equal_scores_go_to_the_lower_position(builds: list[Kernels], generator: torch.Generator) -> None:
    q, keys, weights, visible = inputs_of(4, 300, generator, heads=1)
    inputs = coarse(q), coarse(keys), torch.ones_like(weights), visible
    scores = index_scores(inputs[0].dequantize(), inputs[1].dequantize(), *inputs[2:], W)
    assert scores[-1].unique().numel() < 60
    assert not any(wrong_builds(builds, inputs, count) for count in (1, 30, 150, 299))


@pytest.mark.parametrize("visible", [31, 32, 1000, 2999, 3000])
@pytest.mark.parametrize("distinct", [False, True])
def test_few_of_a_long_row(builds: list[Kernels], visible: int, distinct: bool, generator: torch.Generator) -> None:
    q, keys, weights, _ = inputs_of(3, 3000, generator, heads=1, dim=32)
    q, keys = (q, keys) if distinct else (coarse(q), coarse(keys))
    inputs = q, keys, weights, torch.full((3,), visible)
    candidates = torch.rand((3, 3000), generator=generator) < torch.tensor([[1.1], [0.5], [0.01]])
    for count in (1, 12, 80):
        assert not wrong_builds(builds, inputs, count, CandidateBlocks(3, count))
        assert not wrong_builds(builds, inputs, count, CandidateBlocks(3, count), candidates)


def test_a_row_without_candidates_selects_nothing(builds: list[Kernels], generator: torch.Generator) -> None:
    inputs = inputs_of(2, 2000, generator, heads=1, dim=32)
    nothing = torch.zeros((2, 2000), dtype=torch.bool)
    for kernels in builds:
        assert (kernels.index_select(*inputs, 30, nothing).selected == ABSENT).all()


def scaled(rows: Quantized, low: int, high: int, generator: torch.Generator) -> Quantized:
    scales = torch.randint(low, high + 1, rows.scales.shape, generator=generator, dtype=torch.uint8)
    codes = torch.randint(0, 256, rows.codes.shape, generator=generator, dtype=torch.uint8)
    return replace(rows, codes=codes, scales=scales)


@pytest.mark.parametrize("spread", [0, 2, 4, 5, 7, 12, 19, 40, 60])
def test_scales_however_far_apart(builds: list[Kernels], spread: int, generator: torch.Generator) -> None:
    q, keys, weights, visible = inputs_of(3, 150, generator, heads=5, dim=128)
    low, high = 127 - spread // 2, 127 - spread // 2 + spread
    inputs = scaled(q, low, high, generator), scaled(keys, low, high, generator), weights, visible
    assert not wrong_builds(builds, inputs)


# The largest of which every value is a bfloat16.
LARGEST_SCALE = 252


@pytest.mark.parametrize("q_scale", [0, 1, 64, 127, 190, LARGEST_SCALE])
@pytest.mark.parametrize("key_scale", [0, 1, 64, 127, 190, LARGEST_SCALE])
def test_scales_and_weights_at_their_ends(
    builds: list[Kernels], q_scale: int, key_scale: int, generator: torch.Generator
) -> None:
    q, keys, weights, visible = inputs_of(2, 20, generator, heads=5)
    q, keys = scaled(q, q_scale, q_scale, generator), scaled(keys, key_scale, key_scale, generator)
    # An infinite product times 0, or less another, has no value.
    weights = weights.abs().clamp_min(0.25)
    for size in (1.0, 2.0**-60, 2.0**-130, 2.0**100):
        assert not wrong_builds(builds, (q, keys, (weights * size).to(torch.bfloat16), visible))


def test_a_sum_beside_a_tie_is_rounded_once(builds: list[Kernels]) -> None:
    # Twice the values: 28 * 144 + 12 * 6 + 8 * 1 lies halfway between two of 8 bits; a block far below it decides.
    q_row, key_row = torch.zeros((2, 64)), torch.zeros((2, 64))
    q_row[:, :30] = torch.tensor([6.0] * 29 + [4.0])
    key_row[:, :30] = torch.tensor([6.0] * 28 + [3.0, 0.5])
    q_row[:, 32], key_row[:, 32] = 0.5, torch.tensor([0.5, -0.5])
    codes = [pack_e2m1(encode_e2m1(row)) for row in (q_row[:1, None], key_row)]
    weights, visible = torch.ones((1, 1), dtype=torch.bfloat16), torch.tensor([2])
    for spread in range(25):
        q = Quantized(codes[0], torch.tensor([[[127 + spread // 2, 127]]], dtype=torch.uint8), Q4I)
        keys = Quantized(codes[1], torch.tensor([[127 + spread - spread // 2, 127]] * 2, dtype=torch.uint8), Q4I)
        assert not wrong_builds(builds, (q, keys, weights, visible)), spread


def test_some_heads_and_some_keys_far_apart(builds: list[Kernels], generator: torch.Generator) -> None:
    q, keys, weights, visible = inputs_of(3, 150, generator, heads=7, dim=128)
    q.scales[:, 2, 1] += 12
    keys.scales[40:42, 3] += 9
    keys.scales[90, 0] = 0
    assert not wrong_builds(builds, (q, keys, weights, visible))


def test_empty_blocks_heads_keys_and_weights(builds: list[Kernels], generator: torch.Generator) -> None:
    zeros = torch.tensor([0, 0.0, 1, 1])[torch.randint(0, 4, (4, 8, 4), generator=generator)]
    q = normal(4, 8, 128, generator=generator) * zeros.repeat_interleave(32, dim=2).to(torch.bfloat16)
    keys = normal(100, 128, generator=generator)
    keys[::3] = 0
    keys[1::3, :32] = 0
    weights = normal(4, 8, generator=generator)
    weights[:, ::2] = 0
    assert not wrong_builds(builds, (quantize_q4i(q), quantize_q4i(keys), weights, torch.full((4,), 100)))


def shifted(x: Tensor, nbytes: int) -> Tensor:
    room = torch.empty(x.numel() * x.element_size() + nbytes, dtype=torch.uint8)
    moved = room[nbytes:].view(x.dtype).view(x.shape)
    return moved.copy_(x)


def test_rows_at_unaligned_addresses(builds: list[Kernels], generator: torch.Generator) -> None:
    q, keys, weights, visible = inputs_of(3, 70, generator)
    q = replace(q, codes=shifted(q.codes, 9), scales=shifted(q.scales, 3))
    keys = replace(keys, codes=shifted(keys.codes, 7), scales=shifted(keys.scales, 1))
    assert not wrong_builds(builds, (q, keys, shifted(weights, 2), shifted(visible, 8)))


def test_a_token_gets_what_it_gets_alone(builds: list[Kernels], generator: torch.Generator) -> None:
    q, keys, weights, visible = inputs_of(300, 90, generator)
    for kernels in builds:
        whole = kernels.index_select(q, keys, weights, visible, 20, wants_scores=True)
        assert whole.scores is not None
        for start, end in ((0, 1), (1, 4), (4, 21), (21, 85), (85, 300)):
            rows = slice(start, end)
            part = kernels.index_select(q[rows], keys, weights[rows], visible[rows], 20, wants_scores=True)
            assert same(part, IndexSelection(whole.selected[rows], None, whole.scores[rows]))


def test_more_tokens_than_are_scored_together(builds: list[Kernels], generator: torch.Generator) -> None:
    assert not wrong_builds(builds, inputs_of(140, 50, generator, heads=2, dim=32))
