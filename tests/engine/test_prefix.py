"""Snapshots in memory: what is found, what is kept, and who goes."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from prefix_world import new_cache, same, sequence
from shoal.engine.prefix import PrefixCache

ONE = sequence((0,) * 40).nbytes
"""Bytes of a short sequence, whatever its length."""


def prefix_cache(count: float = 100) -> PrefixCache:
    return PrefixCache(new_cache, int(count * ONE))


def keep(cache: PrefixCache, ids: tuple[int, ...]) -> None:
    cache.keep(ids, sequence(ids))


def found(cache: PrefixCache, ids: tuple[int, ...]) -> int:
    """The length that is found."""
    hit = cache.find(ids)
    return 0 if hit is None else hit[1]


def test_the_longest_beginning_is_found() -> None:
    cache = prefix_cache()
    for length in (2, 4, 6):
        keep(cache, tuple(range(length)))
    hit = cache.find((0, 1, 2, 3, 4, 9, 9))
    assert hit is not None and hit[1] == 4
    assert same(hit[0], sequence((0, 1, 2, 3)))


def test_a_token_is_always_left_to_compute() -> None:
    cache = prefix_cache()
    keep(cache, (1, 2))
    keep(cache, (1, 2, 3))
    assert [found(cache, ids) for ids in ((1, 2, 3, 4), (1, 2, 3), (1, 2), (1,), ())] == [3, 2, 0, 0, 0]


def test_one_token_that_differs_is_no_hit() -> None:
    cache = prefix_cache()
    keep(cache, (1, 2, 3))
    assert found(cache, (1, 2, 4, 5)) == 0
    assert found(cache, (4, 1, 2, 3, 5)) == 0


def test_what_is_kept_does_not_change_with_the_sequence_it_came_from_or_with_who_found_it() -> None:
    cache, running = prefix_cache(), sequence((1, 2))
    cache.keep((1, 2), running)
    running.load(sequence((7, 8, 9)).state(), 3)
    hit = cache.find((1, 2, 3))
    assert hit is not None
    hit[0].load(sequence((7, 8, 9)).state(), 3)
    again = cache.find((1, 2, 3))
    assert again is not None and again[0] is not hit[0] and same(again[0], sequence((1, 2)))


def test_the_least_used_goes_first() -> None:
    cache = prefix_cache(3)
    for token in (1, 2, 3):
        keep(cache, (token, token))
    keep(cache, (1, 1))  # of use again
    keep(cache, (4, 4))
    assert [found(cache, (token, token, 0)) > 0 for token in (1, 2, 3, 4)] == [True, False, True, True]
    assert cache.statistics().evicted == 1


def test_one_that_was_hit_lives_longer_but_not_for_ever() -> None:
    cache = prefix_cache(2)
    keep(cache, (1, 1))
    assert found(cache, (1, 1, 0)) == 2
    survived = []
    for token in range(2, 12):
        keep(cache, (token, token))
        survived.append(cache.shared((1, 1)) == 2)
    assert survived[:2] == [True, True] and not survived[-1]


def test_one_in_use_stays() -> None:
    cache = prefix_cache(2)
    keep(cache, (1, 1))
    hit = cache.find((1, 1, 0))
    for token in range(2, 12):
        keep(cache, (token, token))
    assert cache.shared((1, 1)) == 2 and hit is not None
    del hit
    for token in range(2, 12):
        keep(cache, (token, token))
    assert cache.shared((1, 1)) == 0


def test_what_does_not_fit_is_not_kept() -> None:
    cache = prefix_cache(1)
    keep(cache, (1, 1))
    hit = cache.find((1, 1, 0))
    keep(cache, (2, 2))
    statistics = cache.statistics()
    assert (statistics.refused, statistics.snapshots) == (1, 1) and hit is not None
    tiny = prefix_cache(0.5)
    keep(tiny, (1, 1))
    assert (tiny.statistics().refused, tiny.statistics().nbytes) == (1, 0)


def test_one_that_could_never_fit_evicts_nobody() -> None:
    cache, long = prefix_cache(1.5), (1,) * 2000
    keep(cache, (2, 2))
    keep(cache, long)
    assert cache.shared((2, 2)) == 2 and cache.shared(long) == 0


def test_an_eviction_can_be_asked_for() -> None:
    cache = prefix_cache()
    keep(cache, (1, 1))
    keep(cache, (2, 2))
    assert cache.evict() and cache.shared((1, 1)) == 0 and cache.shared((2, 2)) == 2
    assert cache.evict() and not cache.evict()
    assert cache.statistics().nbytes == 0


def test_statistics_count_what_was_saved() -> None:
    cache = prefix_cache()
    keep(cache, (1, 2, 3))
    keep(cache, (1, 2, 3))
    assert [found(cache, ids) for ids in ((1, 2, 3, 4), (1, 2, 3, 5), (9, 9))] == [3, 3, 0]
    statistics = cache.statistics()
    assert (statistics.lookups, statistics.hits, statistics.saved_tokens) == (3, 2, 6)
    assert (statistics.kept, statistics.snapshots, statistics.disk) == (1, 1, None)
    assert 0 < statistics.nbytes <= statistics.limit


def test_after_the_end_nothing_is_kept_or_found() -> None:
    cache = prefix_cache()
    keep(cache, (1, 2))
    cache.close()
    keep(cache, (3, 4))
    assert found(cache, (1, 2, 3)) == 0 and cache.statistics().nbytes == 0


def test_a_sequence_of_another_length_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        prefix_cache().keep((1, 2, 3), sequence((1, 2)))


SEQUENCES = st.lists(st.integers(0, 2), max_size=6).map(tuple)


class CacheAndTwin(RuleBasedStateMachine):
    """Twin: a dictionary of all that was ever kept. Everything kept at most once more may be gone, never wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = prefix_cache(4)
        self.ever: set[tuple[int, ...]] = set()
        self.running: list[object] = []

    @rule(ids=SEQUENCES)
    def keep(self, ids: tuple[int, ...]) -> None:
        keep(self.cache, ids)
        self.ever.add(ids)

    @rule(ids=SEQUENCES, runs=st.booleans())
    def find(self, ids: tuple[int, ...], runs: bool) -> None:
        held = {tuple(node.ids().tolist()) for node in self.cache._tree}
        hit = self.cache.find(ids)
        wanted = max(
            (kept for kept in held if len(kept) < len(ids) and ids[: len(kept)] == kept), key=len, default=None
        )
        if hit is None:
            assert wanted is None
        else:
            assert wanted is not None and hit[1] == len(wanted) and same(hit[0], sequence(wanted))
            if runs:
                self.running.append(hit[0])

    @rule()
    def end(self) -> None:
        if self.running:
            self.running.pop()

    @rule()
    def evict(self) -> None:
        before = self.cache.statistics().snapshots
        assert self.cache.statistics().snapshots == before - self.cache.evict()

    @invariant()
    def the_budget_holds(self) -> None:
        caches = [node.value.cache for node in self.cache._tree if node.value is not None]
        assert self.cache.statistics().nbytes == sum(cache.nbytes for cache in caches) <= self.cache.limit

    @invariant()
    def only_what_was_kept_is_there(self) -> None:
        assert {tuple(node.ids().tolist()) for node in self.cache._tree} <= self.ever


CacheAndTwin.TestCase.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)
TestCache = CacheAndTwin.TestCase
