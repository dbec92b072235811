"""A decoded token costs few calls of the kernels, and leaves nothing behind (what each costs is Python's time)."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from miniature import MINI
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.ops.native import Native
from shoal.weights.load import load_backbone

RELEASE = Path(__file__).parents[1] / "data" / "release"
MOST_CALLS = 300


def calls_of_a_token(config: ModelConfig) -> int:
    """To its keys, to its experts and to its end: three a layer, and what some layers have."""
    calls = 3  # two rope tables, the logits
    for plan in plan_layers(config):
        if plan.is_draft:
            continue
        calls += 3 + 2 * plan.scores + (plan.engram_index is not None)
        if plan.owns_kv:
            # A rope table, the products, pooling where there is a group, what is stored.
            calls += 5 if plan.compress_ratio > 1 else 3
    return calls


@pytest.fixture
def native() -> Iterator[Backbone]:
    with Checkpoint.open(MINI) as checkpoint:
        yield load_backbone(load_config(MINI), checkpoint, arithmetic=Native()).backbone


def decode(backbone: Backbone, count: int) -> Iterator[int]:
    """Calls of each of `count` tokens after a prompt of two."""
    cache = backbone.new_cache()
    assert backbone.arithmetic.kernels is not None
    counter = backbone.arithmetic.kernels.native
    backbone.forward(Batch.build([[0, 5]], [cache]), [cache])
    for token in range(count):
        before = counter.calls
        backbone.forward(Batch.build([[token + 7]], [cache]), [cache])
        yield counter.calls - before


def test_a_token_costs_as_many_calls_as_counted(native: Backbone) -> None:
    assert set(decode(native, 4)) == {calls_of_a_token(native.config)}


def test_more_sequences_cost_no_more_calls(native: Backbone) -> None:
    caches = [native.new_cache() for _ in range(5)]
    assert native.arithmetic.kernels is not None
    counter = native.arithmetic.kernels.native
    native.forward(Batch.build([[0, 5, 1][: 1 + number % 3] for number in range(5)], caches), caches)
    before = counter.calls
    native.forward(Batch.build([[7], [8], [9, 10, 11], [12], [13]], caches), caches)
    assert counter.calls - before == calls_of_a_token(native.config)


def test_a_token_of_the_release_costs_at_most_300_calls() -> None:
    assert calls_of_a_token(load_config(RELEASE)) == 159 <= MOST_CALLS


def test_a_token_leaves_no_objects_behind(native: Backbone) -> None:
    # The views of experts stay, so all of them are made beforehand.
    for layer in native.layers:
        list(layer.moe.experts.arrivals(layer.plan.layer_id, range(native.config.n_routed_experts)))
    counts = []
    for number, _ in enumerate(decode(native, 40)):
        if number in (10, 39):
            gc.collect()
            # Not isinstance: it wakes objects of torch that only exist to warn.
            counts.append(sum(type(found) is torch.Tensor for found in gc.get_objects()))
    # Rows of an unfinished group come and go; a leak would be at least one tensor a token.
    assert counts[1] - counts[0] <= 8
