"""Seconds from bytes: sums that can be checked by hand, and more of anything never slower."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.plan.estimate import Estimate
from shoal.plan.memory_split import Workload, split_memory
from shoal.plan.rates import SHARE, Rate, Rates
from shoal.plan.size import GIB
from shoal.plan.stored import Stored

budgets = st.integers(11 * GIB, 600 * GIB)
speeds = st.floats(1e8, 1e12)


def estimate_at(stored: Stored, memory: int, rates: Rates, sequences: int = 1) -> Estimate:
    return Estimate(split_memory(stored, Workload(memory, 4096, sequences)), rates)


def rates_of(memory: float, disk: float, arithmetic: float) -> Rates:
    return Rates(Rate(memory, "given"), Rate(disk, "given"), Rate(arithmetic, "given"))


MEASURED = rates_of(33.5e9, 2.2e9, 312e9)
"""The two-core machine on which the parts of a token were measured."""


def test_with_everything_held_a_token_takes_what_the_parts_took(release: Stored) -> None:
    # Measured there: a limit of 0.39 s by bandwidth alone, parts that add up to 0.48 s.
    estimate = estimate_at(release, 512 * GIB, MEASURED)
    assert estimate.step_seconds * SHARE == pytest.approx(0.39, abs=0.005)
    assert estimate.step_seconds == pytest.approx(0.48, abs=0.015)


def test_missing_every_expert_costs_two_seconds_there(release: Stored) -> None:
    all_held, few_held = (estimate_at(release, memory * GIB, MEASURED) for memory in (512, 12))
    missed = 1 - few_held.split.expert_hit_rate
    assert (few_held.step_seconds - all_held.step_seconds) / missed == pytest.approx(2.05, abs=0.01)


def test_a_prompt_in_all_layers_is_as_fast_as_it_was_there(release: Stored) -> None:
    estimate = estimate_at(release, 512 * GIB, MEASURED)
    assert estimate.prefill_tokens_per_second == pytest.approx(8.6, rel=0.1)


@given(budgets, st.integers(0, 100 * GIB), speeds, speeds, speeds, st.integers(1, 16))
def test_more_memory_is_never_slower(
    release: Stored, memory: int, more: int, first: float, second: float, third: float, sequences: int
) -> None:
    rates = rates_of(first, second, third)
    memory += 2 * GIB  # for the experts of 16 sequences
    less, larger = (estimate_at(release, size, rates, sequences) for size in (memory, memory + more))
    assert larger.step_seconds <= less.step_seconds * (1 + 1e-12)
    # By the token: a chunk is larger with more memory.
    assert larger.prefill_tokens_per_second >= less.prefill_tokens_per_second * (1 - 1e-12)


@given(budgets, speeds, speeds, speeds, st.floats(1, 100))
def test_a_faster_machine_is_never_slower(
    release: Stored, memory: int, first: float, second: float, third: float, times: float
) -> None:
    slow = estimate_at(release, memory, rates_of(first, second, third))
    for faster in (
        rates_of(first * times, second, third),
        rates_of(first, second * times, third),
        rates_of(first, second, third * times),
    ):
        fast = estimate_at(release, memory, faster)
        assert fast.step_seconds <= slow.step_seconds * (1 + 1e-12)
        assert fast.chunk_seconds <= slow.chunk_seconds * (1 + 1e-12)


@pytest.mark.parametrize("sequences", [2, 8])
def test_decoding_together_is_faster_in_all_and_slower_for_each(release: Stored, sequences: int) -> None:
    alone, together = (estimate_at(release, 64 * GIB, MEASURED, count) for count in (1, sequences))
    assert together.tokens_per_second > alone.tokens_per_second
    assert together.step_seconds > alone.step_seconds


def test_a_short_context_is_one_chunk(release: Stored) -> None:
    split = split_memory(release, Workload(64 * GIB, 100, 1))
    assert Estimate(split, MEASURED).chunk.tokens == 100
