"""Whatever the slots, the threads and the order of arrival: the bytes of the experts asked for, or a named error."""

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_experts import EXPERTS, LAYERS, FakeSource, ask, is_whole
from shoal.errors import FileChangedError, OptionError
from shoal.weights.cached_experts import CachedExperts, slots_within
from shoal.weights.expert_policy import POLICIES

ASKED = st.lists(
    st.tuples(st.integers(0, LAYERS - 1), st.sets(st.integers(0, EXPERTS - 1), max_size=6).map(sorted)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25)
@given(
    asked=ASKED,
    num_slots=st.integers(1, LAYERS * EXPERTS),
    num_threads=st.integers(1, 3),
    policy=st.sampled_from(sorted(POLICIES)),
    seed=st.integers(0, 1000),
    num_pinned=st.integers(0, 8),
    warms=st.booleans(),
    asks_twice=st.booleans(),
    guesses=st.booleans(),
)
def test_every_expert_comes_once_and_whole(
    within: Callable[[Callable[[], None]], None],
    asked: list[tuple[int, list[int]]],
    num_slots: int,
    num_threads: int,
    policy: str,
    seed: int,
    num_pinned: int,
    warms: bool,
    asks_twice: bool,
    guesses: bool,
) -> None:
    source, rng = FakeSource(seed), random.Random(seed)
    hottest = rng.sample(source.keys, len(source.keys))
    pinned = hottest[: min(num_pinned, num_slots - 1)]
    experts = CachedExperts(source, num_slots, policy=POLICIES[policy](), pinned=pinned, num_threads=num_threads)

    def run() -> None:
        if warms:
            experts.warm(hottest)
        for layer_id, expert_ids in asked:
            experts.request(layer_id, expert_ids)
            if asks_twice:  # what was asked for and not taken holds nothing up
                experts.request((layer_id + 1) % LAYERS, range(EXPERTS))
            if guesses:  # right or wrong, of this layer or another
                experts.expect(rng.randrange(LAYERS), lambda: rng.sample(range(EXPERTS), 5))
            groups = ask(experts, layer_id, expert_ids)
            assert sorted(expert_id for group in groups for expert_id in group) == expert_ids
            assert len(experts._slots) <= num_slots
        experts.close()

    within(run)
    statistics = experts.statistics
    asks = sum(len(ids) + asks_twice * (EXPERTS + len(ids)) for _, ids in asked)
    assert statistics.hits + statistics.misses == asks
    assert statistics.read_nbytes == statistics.reads * source.slot_nbytes
    assert statistics.reads <= len(source.reads)
    assert statistics.prefetches_joined <= statistics.prefetches_used <= statistics.prefetches <= len(source.reads)
    wasted = statistics.prefetches - statistics.prefetches_used
    assert statistics.wasted_nbytes == wasted * source.slot_nbytes


def test_those_present_come_first_in_one_group(make: Callable[..., CachedExperts]) -> None:
    source = FakeSource()
    experts = make(source, 6)
    ask(experts, 0, [1, 4])
    source.gate = threading.Event()
    arrivals = experts.arrivals(0, [1, 2, 4])
    assert [expert_id for expert_id, _ in next(arrivals)] == [1, 4]
    source.gate.set()
    assert [expert_id for expert_id, _ in next(arrivals)] == [2]
    assert next(arrivals, None) is None
    assert (experts.statistics.hits, experts.statistics.misses) == (2, 3)


def test_a_request_begins_the_reads_and_returns(make: Callable[..., CachedExperts]) -> None:
    source = FakeSource()
    source.gate = threading.Event()
    experts = make(source, 6, num_threads=3)
    experts.request(0, [1, 2, 3])
    for _ in range(1000):
        if len(source.reads) == 3:
            break
        time.sleep(0.01)
    assert sorted(source.reads) == [(0, 1), (0, 2), (0, 3)]
    source.gate.set()
    ask(experts, 0, [1, 2, 3])
    # Asked for and requested are one.
    assert len(source.reads) == 3


def test_the_last_group_stays_until_something_else_is_requested(make: Callable[..., CachedExperts]) -> None:
    experts = make(FakeSource(), 2)
    # A model leaves the loop with the last group in hand.
    for group in experts.arrivals(0, [1, 2]):
        last = group
    experts.warm([(1, 0), (1, 1)])
    time.sleep(0.02)
    assert all(is_whole((0, expert_id), weights) for expert_id, weights in last)


def test_who_is_there_is_not_read_again_and_who_is_pinned_stays(make: Callable[..., CachedExperts]) -> None:
    source = FakeSource()
    experts = make(source, 3, pinned=[(0, 0), (0, 1)], policy=POLICIES["lru"]())
    ask(experts, 0, [0, 1])
    for expert_id in range(EXPERTS):
        ask(experts, 1, [expert_id])
    ask(experts, 0, [0, 1])
    assert [key for key in source.reads if key[0] == 0] == [(0, 0), (0, 1)]


def test_what_is_warmed_is_there_and_counts_as_warmed(make: Callable[..., CachedExperts]) -> None:
    source = FakeSource()
    experts = make(source, 3)
    experts.warm([(0, 3), (0, 1), (1, 1), (2, 2)])
    ask(experts, 0, [1, 3])
    assert sorted(source.reads)[:2] == [(0, 1), (0, 3)]
    assert (experts.statistics.warmed, experts.statistics.warmed_used) == (3, 2)


def test_what_is_asked_for_goes_before_what_is_warmed(make: Callable[..., CachedExperts]) -> None:
    source = FakeSource()
    source.gate = threading.Event()
    experts = make(source, 5, num_threads=1)
    experts.warm([(0, expert_id) for expert_id in range(5)])
    while not source.reads:
        time.sleep(0.001)
    # One of those to be warmed, and one that takes the slot of another.
    experts.request(0, [4, 7])
    source.gate.set()
    ask(experts, 0, [4, 7])
    assert source.reads[:3] == [(0, 0), (0, 4), (0, 7)]


def test_a_read_that_fails_is_raised_where_it_is_waited_for_and_loses_no_slot(
    make: Callable[..., CachedExperts], within: Callable[[Callable[[], Any]], Any]
) -> None:
    source = FakeSource(failing=[(0, 3)])
    experts = make(source, 2)
    for _ in range(4):
        with pytest.raises(FileChangedError, match=r"\(0, 3\) became unreadable"):
            within(lambda: ask(experts, 0, [1, 2, 3, 4]))
    source.failing.clear()
    groups = within(lambda: ask(experts, 0, [1, 2, 3, 4]))
    assert sorted(expert_id for group in groups for expert_id in group) == [1, 2, 3, 4]
    assert len(experts._slots) == 2


def test_a_failure_that_nobody_waits_for_is_silent_until_it_is_asked_for(make: Callable[..., CachedExperts]) -> None:
    experts = make(FakeSource(failing=[(0, 3)]), 4)
    experts.request(0, [3])
    time.sleep(0.02)
    ask(experts, 0, [1])
    with pytest.raises(FileChangedError):
        ask(experts, 0, [3])


def test_one_who_is_interrupted_while_waiting_may_ask_again(
    make: Callable[..., CachedExperts],
    within: Callable[[Callable[[], Any]], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experts = make(FakeSource(slow=0.005), 2)
    done = experts._reader.done

    def interrupted(*, wait: bool = False) -> Any:
        if wait:
            raise KeyboardInterrupt
        return done()

    for expert_ids in ([1, 2, 3], [3, 4], [1, 5]):
        monkeypatch.setattr(experts._reader, "done", interrupted)
        with pytest.raises(KeyboardInterrupt):
            while True:  # until it has to wait
                ask(experts, 0, expert_ids)
                ask(experts, 1, expert_ids)
        monkeypatch.setattr(experts._reader, "done", done)
        groups = within(lambda expert_ids=expert_ids: ask(experts, 0, expert_ids))
        assert sorted(expert_id for group in groups for expert_id in group) == expert_ids
    assert len(experts._slots) == 2


def test_a_closed_store_refuses(make: Callable[..., CachedExperts], within: Callable[[Callable[[], Any]], Any]) -> None:
    experts = make(FakeSource(), 4)
    ask(experts, 0, [1])
    experts.close()
    with pytest.raises(ValueError, match="the expert store is closed"):
        within(lambda: ask(experts, 0, [1]))


def test_closing_while_reads_are_under_way_ends(
    make: Callable[..., CachedExperts], within: Callable[[Callable[[], None]], None]
) -> None:
    experts = make(FakeSource(slow=0.01), 4, num_threads=1)
    experts.request(0, range(8))
    within(experts.close)


def test_a_store_that_is_dropped_ends_its_threads() -> None:
    experts = CachedExperts(FakeSource(), 2, num_threads=2)
    threads = experts._reader._threads
    ask(experts, 0, [1, 2, 3])
    del experts
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize(("nbytes", "num_slots"), [(4096, 1), (8191, 1), (8192, 2), (1 << 40, LAYERS * EXPERTS)])
def test_a_budget_is_whole_slots_and_no_more_than_there_are_experts(nbytes: int, num_slots: int) -> None:
    assert slots_within(FakeSource(), nbytes) == num_slots


def test_a_budget_for_no_expert_names_the_smallest() -> None:
    with pytest.raises(OptionError, match="4,095 bytes of memory for experts hold none, expected at least 4,096"):
        slots_within(FakeSource(), 4095)
