"""Experts in memory."""

import pytest
import torch

from shoal.bench.region import FEWEST_EXPERTS, RELEASED, RESERVE_NBYTES, ExpertRegion, ExpertShape, num_experts
from shoal.errors import OptionError

SMALL = ExpertShape(64, 32)
EXPERT_NBYTES = 18_800_640


@pytest.fixture
def region() -> ExpertRegion:
    return ExpertRegion(SMALL, 10)


def test_an_expert_of_the_release_has_the_bytes_of_its_shards() -> None:
    assert RELEASED.nbytes == EXPERT_NBYTES


def test_the_matrices_of_an_expert_lie_where_it_does_and_cover_it(region: ExpertRegion) -> None:
    expert = region.expert(3)
    matrices = expert.w1, expert.w2, expert.w3
    assert [tuple(matrix.codes.shape) for matrix in matrices] == [(32, 32), (64, 16), (32, 32)]
    assert [tuple(matrix.scales.shape) for matrix in matrices] == [(32, 2), (64, 1), (32, 2)]
    parts = [part.flatten() for matrix in matrices for part in (matrix.codes, matrix.scales)]
    assert torch.equal(torch.cat(parts), region.memory[region.start(3) : region.start(4)])
    assert parts[0].data_ptr() == region.memory.data_ptr() + region.start(3)


def test_no_scale_is_nan_or_extreme(region: ExpertRegion) -> None:
    scales = torch.cat([region.expert(i).w2.scales.flatten() for i in range(10)])
    assert 100 < int(scales.min()) <= int(scales.max()) < 140


def test_every_expert_is_drawn_before_one_is_drawn_again(region: ExpertRegion) -> None:
    drawn = [region.draw(3) for _ in range(6)]
    assert all(len(set(experts)) == 3 for experts in drawn)
    flat = [expert for experts in drawn[:3] for expert in experts]
    assert len(set(flat)) == 9
    later = [expert for experts in drawn for expert in experts]
    assert set(later) == set(range(10))


def test_a_whole_layer_is_held_where_memory_allows_and_nothing_is_said() -> None:
    said: list[str] = []
    assert num_experts(RELEASED, 64 << 30, said.append) == 384
    assert said == []


def test_fewer_experts_are_held_when_memory_is_short_and_it_is_said() -> None:
    said: list[str] = []
    assert num_experts(RELEASED, RESERVE_NBYTES + 100 * EXPERT_NBYTES, said.append) == 100
    assert len(said) == 1
    assert "100 experts are held instead of 384" in said[0]


def test_less_than_caches_hold_is_refused_with_what_is_free_and_wanted() -> None:
    with pytest.raises(OptionError) as refusal:
        num_experts(RELEASED, RESERVE_NBYTES + FEWEST_EXPERTS * EXPERT_NBYTES - 1, print)
    assert refusal.value.message.startswith("3.12 GiB of memory is free, wanted at least 3.12 GiB")
