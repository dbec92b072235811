"""Snapshots in memory: what is found, what is kept, and who goes."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from prefix_world import new_cache, new_pool, same, sequence
from shoal.engine.prefix import PrefixCache
from shoal.engine.prefix_tree import as_ids
from shoal.model.cache import SequenceCache
from shoal.model.page_pool import PagePool

ONE = sequence((0,) * 40).nbytes
"""Bytes of a short sequence, whatever its length."""


def prefix_cache(count: float = 100) -> PrefixCache:
    return PrefixCache(new_cache, int(count * ONE))


def shared_cache(count: float = 100) -> tuple[PrefixCache, PagePool]:
    """One whose sequences have a pool together."""
    pool = new_pool()
    return PrefixCache(lambda: new_cache(pool), int(count * ONE)), pool


def keep(cache: PrefixCache, ids: tuple[int, ...]) -> None:
    cache.keep(ids, sequence(ids))


def holds(cache: PrefixCache, ids: tuple[int, ...]) -> bool:
    return any(node.length == len(ids) for node in cache._tree.along(as_ids(ids)))


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


def test_a_snapshot_keeps_nothing_that_would_undo_its_last_pass() -> None:
    cache, running = prefix_cache(), new_cache()
    running.commit(2)
    cache.keep((1, 2), running)
    hit = cache.find((1, 2, 3))
    assert hit is not None and running.can_truncate(0) and not hit[0].can_truncate(0)


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
        survived.append(holds(cache, (1, 1)))
    assert survived[:2] == [True, True] and not survived[-1]


def test_one_in_use_stays() -> None:
    cache = prefix_cache(2)
    keep(cache, (1, 1))
    hit = cache.find((1, 1, 0))
    for token in range(2, 7):
        keep(cache, (token, token))
    assert holds(cache, (1, 1)) and hit is not None
    del hit
    for token in range(2, 7):
        keep(cache, (token, token))
    assert not holds(cache, (1, 1))


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


def test_one_that_could_never_fit_evicts_nobody_and_is_said_once() -> None:
    said = list[str]()
    cache, long = PrefixCache(new_cache, int(1.5 * ONE), notice=said.append), (1,) * 2000
    keep(cache, (2, 2))
    keep(cache, long)
    keep(cache, (2, *long))
    assert holds(cache, (2, 2)) and not holds(cache, long)
    assert len(said) == 1 and "(`--prefix-memory`) are not kept" in said[0]


def test_an_eviction_can_be_asked_for() -> None:
    cache = prefix_cache()
    keep(cache, (1, 1))
    keep(cache, (2, 2))
    assert cache.evict() and not holds(cache, (1, 1)) and holds(cache, (2, 2))
    assert cache.evict() and not cache.evict()
    assert cache.statistics().nbytes == 0


def test_pages_that_snapshots_share_count_once_and_come_back_with_the_last_of_them() -> None:
    cache, pool = shared_cache()
    running = sequence((0,) * 40, pool)
    pages, fixed = pool.num_used, running.fixed_nbytes
    cache.keep((0,) * 40, running)
    cache.keep((1,) * 40, running)
    assert pool.num_used == pages == 10
    assert cache.statistics().nbytes == 2 * fixed + pages * pool.layout.nbytes
    running.release()
    assert cache.evict() and cache.statistics().nbytes == fixed + pages * pool.layout.nbytes
    assert pool.num_used == pages and cache.evict() and pool.num_used == 0


def test_a_snapshot_takes_no_pages_that_a_sequence_has_in_reserve() -> None:
    cache, pool = shared_cache()
    running = sequence((0,) * 40, pool)
    running.reserve(400)
    cache.keep((0,) * 40, running)
    running.release()
    assert pool.num_used == 10


def test_room_is_made_by_as_many_as_it_takes() -> None:
    cache, pool = shared_cache()
    for token in range(4):
        running = sequence((token,) * 40, pool)
        cache.keep((token,) * 40, running)
        cache.keep((token, 9), sequence((token, 9), pool))
        running.release()
    page = pool.layout.nbytes
    assert cache.make_room(12 * page) and cache.statistics().evicted == 3
    assert not cache.make_room(1000 * page) and pool.num_used == 0
    assert not cache.make_room(1)


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
    """What is found is what a search of all that is held finds; that was kept, fits, and is all that has pages."""

    def __init__(self) -> None:
        super().__init__()
        self.cache, self.pool = shared_cache(4)
        self.ever: set[tuple[int, ...]] = set()
        self.running: list[SequenceCache] = []

    def held(self) -> dict[tuple[int, ...], SequenceCache]:
        nodes = [node for node in self.cache._tree if node.value is not None]
        return {tuple(node.ids().tolist()): node.value.cache for node in nodes if node.value is not None}

    @rule(ids=SEQUENCES)
    def keep(self, ids: tuple[int, ...]) -> None:
        running = sequence(ids, self.pool)
        self.cache.keep(ids, running)
        running.release()
        self.ever.add(ids)

    @rule(ids=SEQUENCES, runs=st.booleans())
    def find(self, ids: tuple[int, ...], runs: bool) -> None:
        fitting = [kept for kept in self.held() if len(kept) < len(ids) and ids[: len(kept)] == kept]
        hit = self.cache.find(ids)
        assert (hit is None) == (not fitting)
        if hit is not None:
            assert hit[1] == len(max(fitting, key=len)) and same(hit[0], sequence(ids[: hit[1]]))
            self.running.append(hit[0])
            if not runs:
                self.end()

    @precondition(lambda self: self.running)
    @rule()
    def end(self) -> None:
        self.running.pop().release()

    @rule()
    def evict(self) -> None:
        before = len(self.held())
        has_evicted = self.cache.evict()
        assert len(self.held()) == before - has_evicted
        assert has_evicted or before <= len(self.running)

    @invariant()
    def the_budget_holds(self) -> None:
        caches, limit = self.held().values(), self.cache.limit
        pages = {page_id for cache in caches for page_id in cache.page_ids}
        nbytes = sum(cache.fixed_nbytes for cache in caches) + len(pages) * self.pool.layout.nbytes
        assert self.cache.statistics().nbytes == nbytes <= limit

    @invariant()
    def nothing_else_has_pages(self) -> None:
        caches = [*self.held().values(), *self.running]
        assert self.pool.num_used == len({page_id for cache in caches for page_id in cache.page_ids})

    @invariant()
    def only_what_was_kept_is_there(self) -> None:
        assert self.held().keys() <= self.ever


CacheAndTwin.TestCase.settings = settings(max_examples=10, stateful_step_count=20, deadline=None)
TestCache = CacheAndTwin.TestCase
