"""Decoding in a budget, on the random miniature."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from miniature import MINI
from shoal.bench import budget
from shoal.bench.budget import TOKEN, BudgetBench, splits_of
from shoal.bench.model import load_model
from shoal.bench.resident import ResidentPeak
from shoal.bench.shards import shards_of
from shoal.bench.stores import HITS, MISSED, MISSES
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.errors import OptionError
from shoal.ops.kernels import available_isas
from shoal.plan.disk_probe import DiskProbe
from shoal.plan.memory_split import Workload, smallest_memory
from shoal.plan.size import GIB
from shoal.plan.stored import count_stored

CONFIG = load_config(MINI)
STORED = count_stored(CONFIG)
ASKED = CONFIG.n_layers * CONFIG.n_activated_experts
TOKENS = 3


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("COLD_TOKENS", 1), ("SETTLE_TOKENS", 2), ("PROBE_SECONDS", 0.01)):
        monkeypatch.setattr(budget, name, value)


@pytest.fixture(scope="module")
def bench() -> Iterator[BudgetBench]:
    with Checkpoint.open(MINI) as checkpoint, DiskProbe(shards_of(checkpoint)) as probe:
        with ResidentPeak() as loading:
            loaded = closing(load_model(checkpoint, available_isas()[0], 1, lambda text: None, hold_experts=False))
        with loaded as model:
            yield BudgetBench(model, checkpoint, probe, 1, TOKENS, loading, lambda text: None)


def smallest() -> int:
    return smallest_memory(STORED, Workload(0, 6, 1))


def test_with_room_for_all_experts_warm_tokens_miss_nothing_they_have_seen(bench: BudgetBench) -> None:
    (split,) = splits_of(STORED, [2 * GIB], TOKENS)
    assert split.cached_experts == STORED.num_experts
    run = bench.run(split)
    (cold,) = run.cold.rounds
    # Those read ahead in time are there when they are asked for.
    assert cold.counts[MISSES] > 0 and cold.counts[HITS] + cold.counts[MISSES] == ASKED
    assert cold.counts[MISSED] > 0
    assert all(each.counts[HITS] + each.counts[MISSES] == ASKED for each in run.warm.rounds)
    assert sum(each.counts[HITS] for each in run.warm.rounds) > 0
    assert run.compute.origin == "all experts in memory" and run.compute.seconds > 0


def test_a_small_budget_misses_more_and_its_store_fills(bench: BudgetBench) -> None:
    small, large = (bench.run(split) for split in splits_of(STORED, [smallest(), 2 * GIB], TOKENS))
    assert small.slots < large.slots
    assert small.warm_is_full
    assert small.warm.count(MISSED) > large.warm.count(MISSED)
    assert small.warm.seconds(TOKEN) > 0
    assert small.peak.nbytes > STORED.dense


def test_where_not_all_experts_fit_the_planner_says_what_computing_takes(
    bench: BudgetBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "free_memory", lambda: STORED.num_experts * STORED.expert_nbytes)
    monkeypatch.setattr(budget, "buffer_nbytes", lambda threads, free: 1 << 24)
    (split,) = splits_of_free([2 * GIB], monkeypatch)
    compute = bench._compute(split)
    assert "of the memory's" in compute.origin
    assert 0 < compute.seconds < 1


def splits_of_free(memories: list[int], monkeypatch: pytest.MonkeyPatch) -> list[budget.MemorySplit]:
    with monkeypatch.context() as patch:
        patch.setattr(budget, "free_memory", lambda: 64 * GIB)
        return splits_of(STORED, memories, TOKENS)


def test_tokens_are_the_same_for_every_budget(bench: BudgetBench) -> None:
    ids = bench._ids()
    assert ids == bench._ids() and len(ids) == 1 + 2 + TOKENS and len(set(ids)) > 1
    assert all(0 <= token < CONFIG.vocab_size for token in ids)


def test_a_budget_larger_than_what_is_free_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "free_memory", lambda: GIB // 2)
    with pytest.raises(OptionError, match=r"2\.00 GiB of memory would take .*, but 0\.50 GiB is free"):
        splits_of(STORED, [2 * GIB], TOKENS)


def test_a_budget_that_cannot_hold_what_must_be_there_is_refused_with_one_that_can() -> None:
    with pytest.raises(OptionError, match="the smallest budget that would do is"):
        splits_of(STORED, [smallest() - 1], TOKENS)
