"""Stores of a budget in the place of the model's own."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import closing

import pytest

from miniature import MINI
from shoal.bench.model import BenchModel, load_model
from shoal.bench.stores import HITS, MISSED, MISSES, STALLED, Stores
from shoal.checkpoint.shards import Checkpoint
from shoal.ops.kernels import available_isas
from shoal.weights.experts import MappedExperts

SLOT_NBYTES = 7 * 4096
"""Of an expert of the miniature, whole pages."""


@pytest.fixture(scope="module")
def checkpoint() -> Iterator[Checkpoint]:
    with Checkpoint.open(MINI) as opened:
        yield opened


@pytest.fixture(scope="module")
def model(checkpoint: Checkpoint) -> Iterator[BenchModel]:
    with closing(load_model(checkpoint, available_isas()[0], 1, lambda text: None, hold_experts=False)) as model:
        yield model


def stores_of(model: BenchModel, checkpoint: Checkpoint, experts: int | None, row_nbytes: int = 0) -> Stores:
    nbytes = None if experts is None else experts * SLOT_NBYTES
    return Stores(model, checkpoint, nbytes, row_nbytes, lambda text: None)


def test_any_budget_gives_the_model_s_own_answer(model: BenchModel, checkpoint: Checkpoint) -> None:
    wanted = model.step(model.prompt(3), model.backbone.new_cache())
    for experts in (1, 9, None):
        with stores_of(model, checkpoint, experts, 10_000):
            assert model.step(model.prompt(3), model.backbone.new_cache()) == wanted


def test_they_are_asked_and_the_former_come_back(model: BenchModel, checkpoint: Checkpoint) -> None:
    former_rows = model.backbone.engram_rows
    with stores_of(model, checkpoint, 40) as stores:
        before = stores.counts()
        assert before == dict.fromkeys((MISSED, STALLED, HITS, MISSES), 0)
        model.step([1], model.backbone.new_cache())
        after = stores.counts()
        config = model.config
        assert after[HITS] + after[MISSES] == config.n_layers * config.n_activated_experts
        read = sum(map(stores.experts.source.nbytes, stores.experts.source.keys)) / len(stores.experts.source.keys)
        experts = stores.experts.statistics
        # What was read ahead and used came from the disk too; what was joined is counted as a miss already.
        brought = after[MISSES] + experts.prefetches_used - experts.prefetches_joined
        assert after[MISSED] == pytest.approx(brought * read + stores.rows.statistics.nbytes_read, rel=0.05)
        assert stores.rows.statistics.rows > 0
    assert isinstance(model.backbone.layers[0].moe.experts, MappedExperts)
    assert model.backbone.engram_rows is former_rows
    engrams = [layer.engram for layer in model.backbone.layers if layer.engram is not None]
    assert engrams and all(engram.rows is former_rows for engram in engrams)


def test_their_memory_is_given_back(model: BenchModel, checkpoint: Checkpoint) -> None:
    with stores_of(model, checkpoint, 5) as stores:
        model.step([1], model.backbone.new_cache())
        arena = weakref.ref(stores.experts.arena)
    del stores
    gc.collect()
    assert arena() is None


def test_a_read_that_nobody_asked_for_is_not_missed(model: BenchModel, checkpoint: Checkpoint) -> None:
    with stores_of(model, checkpoint, None) as stores:
        source = stores.experts.source
        stores.experts.warm([source.keys[0], source.keys[1]])
        # Asked for, one of the two; and one that was not prefetched.
        layer, expert = source.keys[0]
        for _ in stores.experts.arrivals(layer, [expert, source.keys[2][1]]):
            pass
        while stores.experts.statistics.reads < 3:
            stores.experts.request(layer, [expert])
        assert stores.counts()[MISSED] == pytest.approx(stores.experts.statistics.read_nbytes * 2 / 3)


def test_it_is_full_when_every_slot_was_filled(model: BenchModel, checkpoint: Checkpoint) -> None:
    with stores_of(model, checkpoint, None) as stores:
        assert not stores.is_full
        for key in stores.experts.source.keys:
            for _ in stores.experts.arrivals(key[0], [key[1]]):
                pass
        assert stores.is_full
