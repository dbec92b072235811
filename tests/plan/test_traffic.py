"""Bytes of a step: the released figures for one token, and how they grow with tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.checkpoint.inventory import ROUTED
from shoal.plan.memory_split import MemorySplit, Workload, split_memory
from shoal.plan.size import GIB
from shoal.plan.stored import Stored
from shoal.plan.traffic import KV_CACHE, Traffic


@pytest.fixture(scope="module")
def split(release: Stored) -> MemorySplit:
    return split_memory(release, Workload(64 * GIB, 4096, 1))


def test_a_token_reads_13_03_gb_of_weights(split: MemorySplit) -> None:
    parts = Traffic(split, 1, 1).from_memory
    assert parts[ROUTED] == 4_512_153_600
    assert sum(nbytes for kind, nbytes in parts.items() if kind != KV_CACHE) / 1e9 == pytest.approx(13.03, abs=0.01)


def test_a_token_asks_for_96_engram_pages(split: MemorySplit) -> None:
    assert Traffic(split, 1, 1).engram_pages == 96


def test_missed_experts_come_from_the_disk_and_through_memory_too(split: MemorySplit) -> None:
    traffic = Traffic(split, 1, 1)
    assert traffic.experts_from_disk == pytest.approx(4_512_153_600 * (1 - split.expert_hit_rate))
    assert traffic.from_memory[ROUTED] > traffic.experts_from_disk
    assert traffic.disk_nbytes == traffic.experts_from_disk + traffic.engram_from_disk
    assert traffic.engram_from_disk == pytest.approx(96 * 4096 * (1 - split.row_hit_rate))


def test_nothing_comes_from_the_disk_when_everything_is_held(release: Stored) -> None:
    assert Traffic(split_memory(release, Workload(512 * GIB, 4096, 1)), 1, 1).disk_nbytes == 0


def test_128_tokens_touch_333_of_384_experts(split: MemorySplit) -> None:
    assert Traffic(split, 128, 1).experts / 40 == pytest.approx(333, abs=0.5)  # ced.md §2


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_distinct_experts_grow_with_tokens_but_less_than_they(split: MemorySplit, tokens: int, more: int) -> None:
    few, many = Traffic(split, tokens, 1).experts, Traffic(split, tokens + more, 1).experts
    assert 240 <= few * (1 + 1e-12) <= many * (1 + 2e-12) <= 15_360 * (1 + 3e-12)
    assert many <= 240 * (tokens + more)


def test_each_sequence_reads_its_own_cache(split: MemorySplit) -> None:
    one, eight = Traffic(split, 1, 1).from_memory[KV_CACHE], Traffic(split, 8, 8).from_memory[KV_CACHE]
    assert eight == 8 * one > 0
