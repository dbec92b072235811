"""The split of a budget: whole, monotone, and refused with the term that is too large."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import OptionError
from shoal.plan.memory_split import WORKING_NBYTES, Workload, smallest_memory, split_memory
from shoal.plan.size import GIB, gib, parse_size
from shoal.plan.stored import Stored

SHORT = 4096
budgets = st.integers(11 * GIB, 700 * GIB)


def split_at(stored: Stored, memory: int, context: int = SHORT, sequences: int = 1):  # type: ignore[no-untyped-def]
    return split_memory(stored, Workload(memory, context, sequences))


@given(budgets)
def test_the_lines_add_up_to_what_is_used_and_never_exceed_the_budget(release: Stored, memory: int) -> None:
    split = split_at(release, memory)
    holdings = list(split.holdings())
    assert sum(holding.in_memory for holding in holdings) == split.used <= memory
    assert sum(holding.stored or 0 for holding in holdings) == release.total


@given(budgets)
def test_what_is_left_unused_would_hold_nothing_more(release: Stored, memory: int) -> None:
    split = split_at(release, memory)
    left = memory - split.used
    if split.expert_hit_rate < 1:
        assert left < release.expert_nbytes
    elif split.row_hit_rate < 1:
        assert left < release.engram_row_nbytes


@given(budgets, st.integers(0, 100 * GIB))
def test_more_memory_never_holds_less(release: Stored, memory: int, more: int) -> None:
    less, larger = split_at(release, memory), split_at(release, memory + more)
    assert less.expert_hit_rate <= larger.expert_hit_rate
    assert less.row_hit_rate <= larger.row_hit_rate


@pytest.mark.parametrize(("gibibytes", "experts", "rows"), [(24, 0.051, 0), (64, 0.2, 0), (256, 0.914, 0), (512, 1, 1)])
def test_hit_rates_of_the_release(release: Stored, gibibytes: int, experts: float, rows: float) -> None:
    split = split_at(release, gibibytes * GIB)
    assert split.expert_hit_rate == pytest.approx(experts, abs=0.001)
    assert split.row_hit_rate == rows


def test_rows_are_held_only_once_every_expert_is(release: Stored) -> None:
    everything = release.dense + WORKING_NBYTES + split_at(release, 64 * GIB).cache.sequence_nbytes
    everything += release.num_experts * release.expert_nbytes
    split = split_at(release, everything + release.engram_row_nbytes)
    assert (split.expert_hit_rate, split.cached_rows) == (1, 1)
    assert split_at(release, everything - 1).cached_rows == 0


@given(st.integers(1, 1 << 20), st.integers(1, 32))
def test_the_smallest_budget_does_and_a_byte_less_does_not(release: Stored, context: int, sequences: int) -> None:
    smallest = smallest_memory(release, Workload(0, context, sequences))
    split = split_at(release, smallest, context, sequences)
    assert split.cached_experts >= min(384, 6 * sequences)
    with pytest.raises(OptionError, match="routed experts, as many as a layer runs at once, take"):
        split_at(release, smallest - 1, context, sequences)


@pytest.mark.parametrize(
    ("memory", "context", "sequences", "term"),
    [
        (8 * GIB, SHORT, 1, "the dense weights (attention, "),
        (10 * GIB, SHORT, 1, "the program and its activations (assumed) take"),
        (64 * GIB, 1 << 20, 80, "the KV caches of 80 x 1,048,576 tokens take 69.75 GiB"),
    ],
)
def test_the_term_that_does_not_fit_is_named(
    release: Stored, memory: int, context: int, sequences: int, term: str
) -> None:
    with pytest.raises(OptionError) as caught:
        split_at(release, memory, context, sequences)
    assert term in caught.value.message
    assert f"does not fit into {gib(memory)}: " in caught.value.message
    wanted = caught.value.message.rpartition("the smallest budget that would do is ")[2]
    split_at(release, parse_size(wanted), context, sequences)  # as printed, it does


def test_only_what_options_change_has_a_hint_about_options(release: Stored) -> None:
    with pytest.raises(OptionError) as caught:
        split_at(release, 64 * GIB, 1 << 20, 80)
    assert caught.value.hint is not None and "`--sequences`" in caught.value.hint


@pytest.mark.parametrize(("context", "sequences"), [(0, 1), ((1 << 20) + 1, 1), (1, 0)])
def test_a_workload_the_model_cannot_serve_is_refused(release: Stored, context: int, sequences: int) -> None:
    with pytest.raises(OptionError, match="wanted 1 "):
        split_at(release, 64 * GIB, context, sequences)


def test_a_model_without_engram_misses_no_row(release: Stored) -> None:
    from dataclasses import replace

    from shoal.plan.stored import count_stored

    config = replace(release.config, engram_layer_ids=(), engram_num_embeddings=())
    split = split_at(count_stored(config), 512 * GIB)
    assert (split.row_hit_rate, split.cached_rows, split.expert_hit_rate) == (1, 0, 1)
