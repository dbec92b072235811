"""What a run is told to keep about its experts is kept, and used by the next."""

import errno
import os
from pathlib import Path

import pytest

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.errors import OptionError
from shoal.weights.cached_experts import CachedExperts
from shoal.weights.expert_store import ExpertOptions, ExpertStore
from shoal.weights.experts import MappedExperts
from shoal.weights.routing_trace import RoutingTrace

Plans = tuple[LayerPlan, ...]


@pytest.fixture
def store(miniature: Checkpoint, config: ModelConfig, plans: Plans):
    def make(**options) -> ExpertStore:
        return ExpertStore(miniature, config, plans, ExpertOptions(**options))

    return make


def run(store: ExpertStore, *steps: tuple[int, list[int]]) -> None:
    for layer_id, expert_ids in steps:
        store.experts.request(layer_id, expert_ids)
        for _ in store.experts.arrivals(layer_id, expert_ids):
            pass
    store.close()


def test_without_a_budget_experts_are_mapped(store) -> None:
    found = store()
    assert isinstance(found.experts, MappedExperts) and found.statistics is None
    assert found.line() == "experts: all in the shards, through the page cache"
    run(found, (0, [1]))


def test_a_budget_holds_what_it_says(store) -> None:
    found = store(nbytes=1 << 20)
    assert isinstance(found.experts, CachedExperts)
    slots = found.experts.arena.num_slots
    assert found.experts.arena.nbytes <= 1 << 20 < found.experts.arena.nbytes + found.experts.source.slot_nbytes
    assert found.line().startswith(f"experts: {slots} of {len(found.experts.source.keys)} in ")
    run(found, (0, [1]), (0, [1, 2]))
    assert (found.statistics.hits, found.statistics.misses) == (1, 2)
    assert found.statistics.line().startswith("experts: 33.3% in memory, ")
    assert found.statistics.as_dict()["hit_rate"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("nbytes", [None, 1 << 20])
def test_routing_is_recorded_whatever_the_store(store, tmp_path: Path, nbytes: int | None) -> None:
    file = tmp_path / "routing.jsonl"
    run(store(nbytes=nbytes, routing=file), (0, [1]), (3, [2, 5]))
    assert list(RoutingTrace.load(file)) == [(0, (1,)), (3, (2, 5))]


def test_a_profile_warms_the_next_run(store, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    run(store(nbytes=1 << 20, profile=file), (0, [1]), (3, [2, 5]), (3, [5]))
    again = store(nbytes=1 << 20, profile=file)
    assert again.statistics.warmed == 3
    assert again.cached._slots.pinned == {(0, 1), (3, 2), (3, 5)}
    run(again, (3, [5]))
    assert again.statistics.warmed_used == again.statistics.hits + again.statistics.misses == 1


def test_with_one_slot_nobody_is_pinned(store, tmp_path: Path, miniature: Checkpoint) -> None:
    file = tmp_path / "profile.json"
    run(store(profile=file), (0, [1]))
    smallest = store(nbytes=1 << 20).cached.source.slot_nbytes
    run(store(nbytes=smallest, profile=file), (0, [1, 2, 3]), (1, [2]))


def test_a_budget_for_no_expert_is_refused(store) -> None:
    with pytest.raises(OptionError, match=r"100 bytes of memory for experts hold none, expected at least \d"):
        store(nbytes=100)


def test_a_file_that_cannot_be_written_keeps_nothing_else_from_being_done(store, tmp_path: Path) -> None:
    found = store(nbytes=1 << 20, profile=tmp_path / "none" / "p.json", routing=tmp_path / "r.jsonl")
    with pytest.raises(OptionError, match="cannot write"):
        run(found, (0, [1]))
    assert list(RoutingTrace.load(tmp_path / "r.jsonl")) == [(0, (1,))]
    with pytest.raises(ValueError, match="closed"):
        found.experts.request(0, [1])


def test_a_full_disk_leaves_the_profile_of_the_runs_before(
    store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "profile.json"
    run(store(profile=file), (0, [1]))
    before = file.read_bytes()

    def fsync(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OptionError, match=r"cannot write .*: No space left on device"):
        run(store(nbytes=1 << 20, profile=file), (0, [2]))
    assert file.read_bytes() == before
