"""Pages of any size, shared or not, change no bit; sequences that share them never see each other's tokens."""

from collections.abc import Sequence
from functools import cache as memoised
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from shoal.errors import CacheFullError
from shoal.model.cache import SequenceCache
from tests.sameness.conftest import Driver, Run, remembered, same

CUTS = ([1, 1, 2, 29, 1, 3], [33, 1, 3], [29, 8], [37])
PAGE_TOKENS, PAGES, WINDOW = 4, 24, 32


@pytest.mark.parametrize("page_tokens", [2, 4, 32])
def test_small_pages_give_the_bits_of_large_ones(native: Driver, page_tokens: int) -> None:
    pool = native.backbone.new_pool(page_tokens=page_tokens)
    caches = [native.backbone.new_cache(pool=pool) for _ in CUTS]
    for run, sizes in zip(native.lockstep([native.prompt(cut) for cut in CUTS], caches), CUTS, strict=True):
        assert run.differences(native.whole(37)) == [], sizes
        assert run.cache.num_pages == pool.layout.pages_for(37)
    assert pool.num_used == len(CUTS) * pool.layout.pages_for(37)
    for cache in caches:
        cache.release()
    assert pool.num_used == 0


def test_the_torch_twins_read_small_pages_too(driver: Any) -> None:
    cache = driver.backbone.new_cache(pool=driver.backbone.new_pool(page_tokens=PAGE_TOKENS))
    (run,) = driver.lockstep([driver.prompt([31, 2])], [cache])
    assert run.differences(driver.whole(33)) == []


def test_a_fork_and_what_it_was_forked_from_go_on_alone(native: Driver) -> None:
    pool = native.backbone.new_pool(page_tokens=PAGE_TOKENS)
    cache = native.backbone.new_cache(pool=pool)
    native.advance([native.ids[:30]], [cache])
    fork = cache.fork()
    assert (pool.num_used, cache.own_nbytes) == (8, cache.fixed_nbytes)
    native.advance([[7] * 5], [cache])
    # The last page of eight was not full: the one that wrote first has a copy of it.
    assert pool.num_used == 8 + 2 and cache.page_ids[:7] == fork.page_ids[:7]
    (run,) = native.lockstep([[native.ids[30:37]]], [fork])
    assert run.differences(native.whole(37), 30) == []
    fork.release()
    assert pool.num_used == cache.num_pages == 9
    assert cache.own_nbytes == cache.nbytes


def test_a_fork_is_cut_back_alone(native: Driver) -> None:
    cache = native.backbone.new_cache()
    native.advance([native.ids[:30]], [cache])
    native.advance([[*native.ids[30:32], 7, 7]], [cache])
    fork, before = cache.fork(), remembered(cache)
    fork.truncate(32)
    (run,) = native.lockstep([[native.ids[32:37]]], [fork])
    assert run.differences(native.whole(37), 32) == [] and same(remembered(cache), before) == []


def test_a_fork_of_a_long_pass_holds_its_rings_alone(native: Driver) -> None:
    cache = native.backbone.new_cache()
    native.advance([native.ids[:37]], [cache])
    fork = cache.fork()
    with_undo = fork.nbytes
    fork.settle()
    rings = sum(ring.rows.codes.nbytes + ring.rows.scales.nbytes for ring in fork.rings.values())
    assert not fork.can_truncate(0) and cache.can_truncate(0)
    # Beside the rings, the values and gates of at most one token of an open group.
    assert rings <= fork.fixed_nbytes < rings + 2 * 4 * 64 * 2 + 1 and fork.nbytes < with_undo


def test_a_full_pool_stops_a_forward_before_it_computes_anything(native: Driver) -> None:
    pool = native.backbone.new_pool(9 * native.backbone.new_pool(page_tokens=4).layout.nbytes, page_tokens=4)
    caches = [native.backbone.new_cache(pool=pool) for _ in range(2)]
    native.advance([native.ids[:15], native.ids[:16]], caches)
    before = [remembered(cache) for cache in caches]
    computed: list[str] = []
    with pytest.raises(CacheFullError, match="all 9 pages"):
        native.advance([native.ids[15:21], native.ids[16:17]], caches, lambda name, _: computed.append(name))
    assert computed == []
    assert [same(remembered(cache), was) for cache, was in zip(caches, before, strict=True)] == [[], []]
    assert pool.num_used == 8
    caches.pop().release()
    (run,) = native.lockstep([[native.ids[15:33]]], caches)
    assert run.differences(native.whole(33), 15) == []


class ForkMachine(RuleBasedStateMachine):
    """Sequences in one small pool beside their tokens, which are computed anew to be compared."""

    def __init__(self, driver: Driver, alone: Any) -> None:
        super().__init__()
        self.driver, self.alone = driver, alone
        self.pool = driver.backbone.new_pool(PAGES * self.page_nbytes(driver), page_tokens=PAGE_TOKENS)
        self.held: list[tuple[SequenceCache, list[int]]] = []
        self.fed = 0

    @staticmethod
    def page_nbytes(driver: Driver) -> int:
        return driver.backbone.new_pool(page_tokens=PAGE_TOKENS).layout.nbytes

    def one(self, data: st.DataObject) -> tuple[SequenceCache, list[int]]:
        return self.held[data.draw(st.integers(0, len(self.held) - 1))]

    def check(self, cache: SequenceCache, tokens: list[int]) -> None:
        assert cache.length == len(tokens)
        assert cache.num_pages == cache.pool.layout.pages_for(len(tokens))
        if tokens:
            assert same(remembered(cache), self.alone(tuple(tokens)).memory) == []

    @rule()
    def begin(self) -> None:
        self.held.append((self.driver.backbone.new_cache(pool=self.pool), []))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), counts=st.lists(st.integers(1, 12), min_size=1, max_size=2))
    def extend(self, data: st.DataObject, counts: list[int]) -> None:
        chosen = {id(one[0]): one for one in (self.one(data) for _ in counts)}.values()
        chunks = []
        for _, count in zip(chosen, counts, strict=False):
            chunks.append([(self.fed + i) * 37 % 500 for i in range(count)])
            self.fed += count
        caches = [cache for cache, _ in chosen]
        try:
            logits = self.driver.advance(chunks, caches)
        except CacheFullError:
            for cache, tokens in chosen:
                self.check(cache, tokens)
            return
        for (_, tokens), chunk, found in zip(chosen, chunks, logits, strict=True):
            tokens += chunk
            wanted = self.alone(tuple(tokens)).logits[-len(chunk) :]
            assert same({"logits": found}, {"logits": wanted}) == []

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        cache, tokens = self.one(data)
        self.held.append((cache.fork(), list(tokens)))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        cache, tokens = self.one(data)
        length = data.draw(st.sampled_from([n for n in range(len(tokens) + 1) if cache.can_truncate(n)]))
        cache.truncate(length)
        del tokens[length:]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        self.one(data)[0].settle()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        cache, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        cache.release()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def save_and_restore(self, data: st.DataObject) -> None:
        cache, tokens = self.one(data)
        restored = self.driver.backbone.new_cache()
        restored.load(cache.state(), cache.length)
        self.check(restored, tokens)

    def teardown(self) -> None:
        for cache, tokens in self.held:
            self.check(cache, tokens)
            cache.release()
        assert self.pool.num_used == 0


def test_sequences_that_share_pages_are_each_alone(native: Driver) -> None:
    @memoised
    def alone(tokens: Sequence[int]) -> Run:
        (run,) = native.lockstep([[list(tokens)]])
        return run

    run_state_machine_as_test(
        lambda: ForkMachine(native, alone), settings=settings(max_examples=8, stateful_step_count=25, deadline=None)
    )
