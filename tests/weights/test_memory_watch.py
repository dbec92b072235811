"""What a tighter limit takes, and what the store does about it."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_experts import EXPERTS, LAYERS, FakeSource, ask
from shoal.weights import memory_watch
from shoal.weights.cached_experts import CachedExperts
from shoal.weights.memory_watch import MemoryWatch


@pytest.fixture(autouse=True)
def always_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "SECONDS", 0.0)


def resident(nbytes: int, address: int) -> int:
    """Bytes in memory of a mapping, as the kernel says."""
    with Path("/proc/self/smaps").open(encoding="ascii") as maps:
        inside = False
        for line in maps:
            first = line.split()[0]
            if "-" in first and not first.endswith(":"):
                start, end = (int(part, 16) for part in first.split("-"))
                inside = start <= address < end
            elif inside and first == "Rss:":
                return int(line.split()[1]) * 1024
    raise AssertionError(address)


def test_what_a_limit_takes_is_what_it_falls_short_of_the_budget() -> None:
    limits, said = iter([None, 100, 70, 70, 60, 100, 70]), list[str]()
    watch = MemoryWatch(lambda: next(limits), 90, said.append)
    assert [watch.lost() for _ in range(7)] == [0, 0, 20, 20, 30, 0, 20]
    assert len(said) == 3 and "control group" in said[0]


def test_the_limit_is_looked_up_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "SECONDS", 60.0)
    looked = list[int]()

    def limit() -> int:
        looked.append(1)
        return 50

    watch = MemoryWatch(limit, 90, lambda _: None)
    assert [watch.lost(), watch.lost()] == [40, 40] and looked == [1]


@settings(max_examples=25, deadline=None)
@given(
    limits=st.lists(st.integers(0, LAYERS * EXPERTS + 1), min_size=1, max_size=12),
    num_slots=st.integers(1, LAYERS * EXPERTS),
    num_pinned=st.integers(0, 8),
    seed=st.integers(0, 1000),
)
def test_experts_come_whole_whatever_is_taken_and_given_back(
    within: Callable[[Callable[[], None]], None], limits: list[int], num_slots: int, num_pinned: int, seed: int
) -> None:
    source, rng, granted = FakeSource(seed), random.Random(seed), [num_slots]
    watch = MemoryWatch(lambda: granted[0] * source.slot_nbytes, num_slots * source.slot_nbytes, lambda _: None)
    pinned = rng.sample(source.keys, min(num_pinned, num_slots - 1))
    experts = CachedExperts(source, num_slots, pinned=pinned, watch=watch)

    def run() -> None:
        for granted[0] in limits:
            layer_id = rng.randrange(LAYERS)
            expert_ids = sorted(rng.sample(range(EXPERTS), rng.randrange(5)))
            groups = ask(experts, layer_id, expert_ids)
            assert sorted(expert_id for group in groups for expert_id in group) == expert_ids
            # Nothing is under way between two requests here, so as many can go as must.
            experts.request(layer_id, [])
            assert experts._slots.num_slots == min(num_slots, max(1, granted[0]))
            assert len(experts._slots) <= experts._slots.num_slots
        experts.close()

    within(run)


def test_the_system_has_the_memory_of_slots_that_are_given_up() -> None:
    source, granted = FakeSource(), [10]
    watch = MemoryWatch(lambda: granted[0] * source.slot_nbytes, 10 * source.slot_nbytes, lambda _: None)
    experts = CachedExperts(source, 10, watch=watch)
    try:
        for layer_id in range(LAYERS):
            ask(experts, layer_id, list(range(5)))
        before = resident(experts.arena.nbytes, experts.arena.slot(0).data_ptr())
        granted[0] = 3
        experts.request(0, [])
        after = resident(experts.arena.nbytes, experts.arena.slot(0).data_ptr())
        assert before - after >= 6 * source.slot_nbytes
        granted[0] = 10
        assert ask(experts, 1, list(range(6)))
    finally:
        experts.close()
