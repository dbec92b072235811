"""What is expected is read ahead, joined, withdrawn, never at the cost of what is needed, and only while it pays."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fake_experts import EXPERTS, LAYERS, FakeSource, ask, is_whole
from shoal.errors import FileChangedError
from shoal.weights.cached_experts import MOST_AHEAD, CachedExperts
from shoal.weights.expert_policy import POLICIES
from shoal.weights.prefetch_gauge import PAUSE, WINDOW

Make = Callable[..., CachedExperts]
Within = Callable[[Callable[[], Any]], Any]


def expect(experts: CachedExperts, layer_id: int, *expert_ids: int) -> None:
    experts.expect(layer_id, lambda: expert_ids)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.0005)


def test_what_is_expected_is_there_when_it_is_asked_for(make: Make) -> None:
    experts = make(FakeSource(), 8)
    ask(experts, 0, [1, 2])
    expect(experts, 1, 3, 4, 5)
    wait_for(lambda: experts._reader.is_idle)
    assert ask(experts, 1, [3, 5, 6])[0] == [3, 5]
    found = experts.statistics
    assert (found.hits, found.misses) == (2, 3)
    assert (found.prefetches, found.prefetches_used, found.prefetches_joined) == (3, 2, 0)
    assert found.wasted_nbytes == experts.source.nbytes((1, 4)) and found.prefetch_precision == 2 / 3


def test_one_that_is_on_its_way_is_joined_and_those_not_begun_are_withdrawn(make: Make) -> None:
    source = FakeSource()
    source.gate = threading.Event()
    experts = make(source, 8, num_threads=3)
    expect(experts, 1, 3, 4, 5)
    wait_for(lambda: source.reads == [(1, 3)])
    experts.request(1, [3, 5, 6])
    # Those that are asked for at once, whether they were expected or not; nobody else.
    wait_for(lambda: len(source.reads) == 3)
    source.gate.set()
    ask(experts, 1, [3, 5, 6])
    assert sorted(source.reads) == [(1, 3), (1, 5), (1, 6)]
    found = experts.statistics
    assert (found.prefetches, found.prefetches_used, found.prefetches_joined) == (1, 1, 1)
    assert (1, 4) not in experts._slots


def test_reads_ahead_begin_when_nothing_else_is_read_and_one_at_a_time(make: Make) -> None:
    source = FakeSource()
    source.gate = threading.Event()
    experts = make(source, 8, num_threads=3)
    experts.request(0, [1])
    expect(experts, 1, 3, 4)
    wait_for(lambda: source.reads == [(0, 1)])
    time.sleep(0.02)
    assert source.reads == [(0, 1)]
    source.gate.set()
    ask(experts, 0, [1])
    wait_for(lambda: experts._reader.is_idle)
    assert source.reads == [(0, 1), (1, 3), (1, 4)]


def test_one_at_a_time_is_read_ahead(make: Make) -> None:
    source = FakeSource()
    source.gate = threading.Event()
    experts = make(source, 8, num_threads=3)
    expect(experts, 1, 3, 4)
    wait_for(lambda: source.reads == [(1, 3)])
    time.sleep(0.02)
    assert source.reads == [(1, 3)]


def test_a_new_guess_takes_the_place_of_one_whose_reads_have_not_begun(make: Make) -> None:
    source = FakeSource()
    source.gate = threading.Event()
    experts = make(source, 8, num_threads=1)
    expect(experts, 1, 3, 4)
    wait_for(lambda: source.reads == [(1, 3)])
    expect(experts, 1, 5)
    source.gate.set()
    wait_for(lambda: experts._reader.is_idle)
    assert source.reads == [(1, 3), (1, 5)]


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_goes_who_is_in_use_pinned_or_expected(make: Make, policy: str) -> None:
    experts = make(FakeSource(), 4, policy=POLICIES[policy](), pinned=[(2, 0)])
    ask(experts, 2, [0])
    for group in experts.arrivals(0, [1, 2]):
        last = group
    expect(experts, 1, 3, 4, 5, 6)
    wait_for(lambda: experts._reader.is_idle)
    # One slot was free, and the one expected first has it.
    for key in [(2, 0), (1, 3), *((0, expert_id) for expert_id, _ in last)]:
        assert key in experts._slots, key
    assert all(is_whole((0, expert_id), weights) for expert_id, weights in last)


def test_nobody_goes_who_is_ranked_above(make: Make) -> None:
    source = FakeSource()
    experts = make(source, 2)
    for _ in range(3):
        ask(experts, 0, [1, 2])
    ask(experts, 2, [])
    expect(experts, 1, 3)
    ask(experts, 0, [1, 2])
    assert sorted(source.reads) == [(0, 1), (0, 2)]


def test_few_slots_are_taken(make: Make) -> None:
    experts = make(FakeSource(), LAYERS * EXPERTS)
    expect(experts, 0, *range(EXPERTS))
    wait_for(lambda: experts._reader.is_idle)
    expect(experts, 1, *range(EXPERTS))
    wait_for(lambda: experts._reader.is_idle)
    assert len(experts._slots) == MOST_AHEAD


def test_a_failure_is_silent_until_it_is_asked_for(make: Make, within: Within) -> None:
    experts = make(FakeSource(failing=[(1, 3)]), 4)
    expect(experts, 1, 3, 4)
    wait_for(lambda: experts._reader.is_idle)
    ask(experts, 1, [4])
    for _ in range(2):
        expect(experts, 1, 3)
        with pytest.raises(FileChangedError, match=r"\(1, 3\) became unreadable"):
            within(lambda: ask(experts, 1, [3]))


def test_a_closed_store_and_one_told_not_to_ask_for_no_guess(make: Make) -> None:
    def guess() -> Sequence[int]:
        raise AssertionError

    experts = make(FakeSource(), 4, prefetch=False)
    experts.expect(0, guess)
    experts.close()
    experts = make(FakeSource(), 4)
    experts.close()
    experts.expect(0, guess)


def run_trace(make: Make, is_right: bool, steps: int) -> list[int]:
    """Whether each step's guess was asked for, when what follows is as it guessed or chosen anew."""
    rng, asked = random.Random(0), list[int]()
    experts = make(FakeSource(slow=0), 6, policy=POLICIES["lru"]())
    upcoming = rng.sample(range(EXPERTS), 2)
    for step in range(steps):
        layer_id = step % LAYERS
        for _ in experts.arrivals(layer_id, upcoming):
            pass
        upcoming = rng.sample(range(EXPERTS), 2)
        guess = upcoming if is_right else rng.sample(range(EXPERTS), 2)

        def offer(guess: Sequence[int] = guess, step: int = step) -> Sequence[int]:
            asked.append(step)
            return guess

        experts.expect((layer_id + 1) % LAYERS, offer)
        if asked and asked[-1] == step:
            wait_for(lambda: experts._reader.is_idle)
    return asked


def test_it_goes_on_where_guesses_are_right_and_stops_where_they_are_not(make: Make) -> None:
    steps = WINDOW + 100
    assert run_trace(make, True, steps) == list(range(steps))
    assert run_trace(make, False, steps) == list(range(WINDOW))
    assert steps < PAUSE
