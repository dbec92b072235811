"""Whatever the memory, the threads, the order of arrival, reading ahead or not: the bits of the mapped experts."""

import random
import time
from collections import defaultdict
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.errors import FileChangedError
from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache
from shoal.model.moe import Experts
from shoal.ops.native import Native
from shoal.weights.cached_experts import CachedExperts
from shoal.weights.expert_key import Key
from shoal.weights.expert_reader import ExpertReader
from shoal.weights.experts import MappedExperts
from shoal.weights.load import load_backbone
from shoal.weights.stored_experts import StoredExperts

Plans = tuple[LayerPlan, ...]
Make = Callable[..., CachedExperts]
CHUNKS = [[0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [16], [17, 18], [19], [20], [21]]


class Unruly(StoredExperts):
    """Experts arrive in any order and some late; of those in `failing` the first read fails."""

    failing, slowest = frozenset[Key](), 0.001

    def reader(self, num_threads: int) -> ExpertReader:
        return ExpertReader(self, num_threads, shuffle=random.randrange(1, 1000))

    def accept(self, key: Key, room: Tensor, *, has_nan: bool) -> None:
        time.sleep(random.random() * self.slowest)
        super().accept(key, room, has_nan=has_nan)
        if key in self.failing:
            self.failing -= {key}
            raise FileChangedError(f"{key} became unreadable")


@pytest.fixture(scope="module")
def backbone(miniature: Checkpoint, config: ModelConfig) -> Backbone:
    return load_backbone(config, miniature, arithmetic=Native(threads=1)).backbone


@pytest.fixture
def source(miniature: Checkpoint, config: ModelConfig, plans: Plans) -> Unruly:
    return Unruly(miniature, config, plans)


def run(backbone: Backbone, experts: Experts) -> list[Tensor]:
    """The logits of the chunks; one that cannot be read is tried again."""
    for layer in backbone.layers:
        layer.moe.experts = experts
    cache = backbone.new_cache()
    return [step(backbone, chunk, cache) for chunk in CHUNKS]


def step(backbone: Backbone, chunk: list[int], cache: SequenceCache) -> Tensor:
    for _ in range(100):
        try:
            return backbone.forward(Batch.build([chunk], [cache]), [cache]).logits
        except FileChangedError as problem:
            assert "became unreadable" in problem.message
    raise AssertionError("a hundred failures")


@pytest.fixture(scope="module")
def wanted(backbone: Backbone, miniature: Checkpoint, plans: Plans) -> list[Tensor]:
    return run(backbone, MappedExperts(miniature, plans))


def same(found: list[Tensor], wanted: list[Tensor]) -> bool:
    return all(torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize(("num_slots", "num_threads"), [(1, 2), (3, 1), (30, 3), (200, 2)])
def test_the_answer_is_that_of_the_mapped_experts(
    backbone: Backbone,
    source: Unruly,
    wanted: list[Tensor],
    make: Make,
    num_slots: int,
    num_threads: int,
    prefetch: bool,
) -> None:
    experts = make(source, min(num_slots, len(source.keys)), num_threads=num_threads, prefetch=prefetch)
    assert same(run(backbone, experts), wanted)
    assert prefetch or not experts.statistics.prefetches


@pytest.mark.parametrize("num_slots", [3, 30])
def test_reads_that_fail_are_told_and_change_no_number(
    backbone: Backbone, source: Unruly, wanted: list[Tensor], make: Make, num_slots: int
) -> None:
    source.failing = frozenset(random.Random(0).sample(source.keys, len(source.keys) // 8))
    before = len(source.failing)
    assert same(run(backbone, make(source, num_slots, num_threads=3)), wanted)
    assert len(source.failing) < before


def test_guesses_are_made_for_few_tokens_once_a_layer_before_and_once_before_attention(
    backbone: Backbone, miniature: Checkpoint, plans: Plans
) -> None:
    guesses, asked = defaultdict[int, list[list[int]]](list), list[tuple[int, list[int]]]()

    class Listening(MappedExperts):
        def request(self, layer_id, expert_ids) -> None:
            right = [len(set(guess) & set(expert_ids)) for guess in guesses.pop(layer_id, [])]
            asked.append((layer_id, right))

        def expect(self, layer_id, guess) -> None:
            guesses[layer_id].append(guess())

    run(backbone, Listening(miniature, plans))
    num_layers = len(backbone.layers)
    # Of a chunk of many tokens nobody guesses, of the first layer no layer before it.
    assert all(not right for _, right in asked[:num_layers])
    assert all(len(right) == (2 if layer_id else 1) for layer_id, right in asked[num_layers:])
    assert not guesses
    first, second = (sum(right[-turn] for _, right in asked[num_layers:] if len(right) == 2) for turn in (2, 1))
    assert second > first > 0, (first, second)
