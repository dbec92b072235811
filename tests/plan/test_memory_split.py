"""The split of a budget: a run's own, whole, monotone, and refused with the term that is too large."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import OptionError
from shoal.plan.activations import activations
from shoal.plan.budget import plan_budget
from shoal.plan.least_memory import Wishes
from shoal.plan.memory_split import MemorySplit, Workload, smallest_memory, split_by_default, split_memory
from shoal.plan.size import GIB, gib, parse_size
from shoal.plan.stored import Stored

SHORT = 4096
budgets = st.integers(11 * GIB, 700 * GIB)


def split_at(stored: Stored, memory: int, context: int = SHORT, sequences: int = 1) -> MemorySplit:
    return split_memory(stored, Workload(memory, context, sequences))


@given(budgets, st.sampled_from([split_memory, split_by_default]), st.sampled_from([1, 8]))
def test_the_lines_add_up_to_what_is_used_and_never_exceed_the_budget(
    release: Stored, memory: int, split_of: object, sequences: int
) -> None:
    assert callable(split_of)
    split = split_of(release, Workload(memory, SHORT, sequences))
    holdings = list(split.holdings())
    assert sum(holding.in_memory for holding in holdings) == split.used <= memory
    assert sum(holding.stored or 0 for holding in holdings) == release.total


@given(budgets)
def test_what_is_left_unused_would_hold_nothing_more(release: Stored, memory: int) -> None:
    split = split_at(release, memory)
    left = memory - split.used
    if split.row_hit_rate < 1:
        assert left < release.expert_nbytes + release.engram_row_nbytes


@given(budgets, st.integers(0, 100 * GIB))
def test_more_memory_never_holds_less(release: Stored, memory: int, more: int) -> None:
    less, larger = split_at(release, memory), split_at(release, memory + more)
    assert less.expert_hit_rate <= larger.expert_hit_rate
    assert less.row_hit_rate <= larger.row_hit_rate


@pytest.mark.parametrize(
    ("gibibytes", "experts", "rows"), [(24, 0.048, 0.001), (64, 0.197, 0.001), (256, 0.911, 0.001), (512, 1, 1)]
)
def test_hit_rates_of_the_release(release: Stored, gibibytes: int, experts: float, rows: float) -> None:
    split = split_at(release, gibibytes * GIB)
    assert split.expert_hit_rate == pytest.approx(experts, abs=0.001)
    assert split.row_hit_rate == pytest.approx(rows, abs=0.001)


@given(budgets, st.sampled_from([1, 8]))
def test_a_plan_of_a_memory_is_what_a_run_makes_of_it(release: Stored, memory: int, sequences: int) -> None:
    run = plan_budget(release, Wishes(memory=memory, sequences=sequences), 0, activations(release.config))
    split = split_by_default(release, Workload(memory, 32_768, sequences))
    experts = release.num_experts if run.experts is None else run.experts // release.expert_nbytes
    assert split.budget == run and split.cached_experts == experts
    assert split.workload.context == min(32_768, run.context)


@given(st.integers(1, 1 << 20), st.integers(1, 32))
def test_the_smallest_budget_does_and_a_byte_less_does_not(release: Stored, context: int, sequences: int) -> None:
    smallest = smallest_memory(release, Workload(0, context, sequences))
    split = split_at(release, smallest, context, sequences)
    assert split.cached_experts == 6 and split.used == smallest
    with pytest.raises(OptionError, match="the routed experts take"):
        split_at(release, smallest - 1, context, sequences)


@pytest.mark.parametrize(
    ("memory", "context", "sequences", "term"),
    [
        (8 * GIB, SHORT, 1, "the dense weights (attention, "),
        (9 * GIB + GIB // 2, SHORT, 1, "the program (assumed) take"),
        (64 * GIB, 1 << 20, 80, "the KV cache take 69.75 GiB"),
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


@pytest.mark.parametrize("split_of", [split_memory, split_by_default, smallest_memory])
@pytest.mark.parametrize(("context", "sequences"), [(0, 1), ((1 << 20) + 1, 1), (1, 0)])
def test_a_workload_the_model_cannot_serve_is_refused(
    release: Stored, split_of: object, context: int, sequences: int
) -> None:
    assert callable(split_of)
    with pytest.raises(OptionError, match="wanted 1 "):
        split_of(release, Workload(64 * GIB, context, sequences))


def test_a_model_without_engram_misses_no_row(release: Stored) -> None:
    from dataclasses import replace

    from shoal.plan.stored import count_stored

    config = replace(release.config, engram_layer_ids=(), engram_num_embeddings=())
    split = split_at(count_stored(config), 512 * GIB)
    assert (split.row_hit_rate, split.cached_rows, split.expert_hit_rate) == (1, 0, 1)
