"""Experts come as stored, whatever cache stands before the shards."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.errors import TensorError
from shoal.model.moe import Experts
from shoal.ops.mixture import ExpertWeights
from shoal.weights.experts import CachedExperts, MappedExperts

Plans = tuple[LayerPlan, ...]
# Steps of (layer, experts asked for), as a forward asks: distinct, ascending.
ASKED = st.lists(
    st.tuples(st.integers(0, 3), st.sets(st.integers(0, 15), max_size=6).map(sorted)), min_size=1, max_size=6
)


def stored_bytes(weights: ExpertWeights) -> list[bytes]:
    matrices = (weights.w1, weights.w2, weights.w3)
    return [part.numpy().tobytes() for matrix in matrices for part in (matrix.codes, matrix.scales)]


def arrived(store: Experts, layer_id: int, expert_ids: Sequence[int]) -> list[tuple[int, ExpertWeights]]:
    return [expert for group in store.arrivals(layer_id, expert_ids) for expert in group]


class CountingStore:
    """A store that says what it was asked for."""

    def __init__(self, store: MappedExperts) -> None:
        self.store, self.requested, self.served = store, list[tuple[int, int]](), list[tuple[int, int]]()

    def request(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        self.requested += [(layer_id, expert_id) for expert_id in expert_ids]

    def arrivals(self, layer_id: int, expert_ids: Sequence[int]) -> Iterator[list[tuple[int, ExpertWeights]]]:
        self.served += [(layer_id, expert_id) for expert_id in expert_ids]
        return self.store.arrivals(layer_id, expert_ids)


def test_mapped_experts_are_those_of_the_names(miniature: Checkpoint, plans: Plans) -> None:
    found = dict(arrived(MappedExperts(miniature, plans), 6, [3, 11]))
    assert list(found) == [3, 11]
    for expert_id, weights in found.items():
        names = [f"layers.6.ffn.experts.{expert_id}.{part}" for part in ("w1", "w2", "w3")]
        wanted = [miniature.read_bytes(f"{name}.{part}") for name in names for part in ("weight", "scale")]
        assert stored_bytes(weights) == wanted


def test_a_draft_layers_experts_are_found_too(miniature: Checkpoint, plans: Plans) -> None:
    ((_, weights),) = arrived(MappedExperts(miniature, plans), 11, [5])
    assert stored_bytes(weights)[0] == miniature.read_bytes("mtp.1.ffn.experts.5.w1.weight")


@pytest.mark.parametrize("capacity", [1, 2, 5, 1000])
@settings(max_examples=10)
@given(asked=ASKED)
def test_a_cache_of_any_capacity_gives_the_mapped_bytes(
    miniature: Checkpoint, plans: Plans, capacity: int, asked: list[tuple[int, list[int]]]
) -> None:
    mapped = MappedExperts(miniature, plans)
    cached = CachedExperts(mapped, capacity)
    for layer_id, expert_ids in asked:
        cached.request(layer_id, expert_ids)
        found = {number: stored_bytes(weights) for number, weights in arrived(cached, layer_id, expert_ids)}
        wanted = {number: stored_bytes(weights) for number, weights in arrived(mapped, layer_id, expert_ids)}
        assert found == wanted
        assert len(cached._held) <= capacity
    assert cached.hits + cached.misses == sum(len(expert_ids) for _, expert_ids in asked)


def test_the_expert_used_longest_ago_is_dropped(miniature: Checkpoint, plans: Plans) -> None:
    store = CountingStore(MappedExperts(miniature, plans))
    cached = CachedExperts(store, 2)
    for expert_ids in ([0, 1], [0], [2], [0], [1]):
        list(cached.arrivals(0, expert_ids))
    assert store.served == [(0, 0), (0, 1), (0, 2), (0, 1)]
    assert (cached.hits, cached.misses) == (2, 4)


def test_only_experts_not_held_are_requested(miniature: Checkpoint, plans: Plans) -> None:
    store = CountingStore(MappedExperts(miniature, plans))
    cached = CachedExperts(store, 4)
    list(cached.arrivals(0, [1, 2]))
    cached.request(0, [1, 2, 3])
    cached.request(1, [1])
    assert store.requested == [(0, 3), (1, 1)]


@pytest.mark.parametrize("capacity", [None, 4])
def test_a_nan_scale_is_named(spoiled: Any, plans: Plans, capacity: int | None) -> None:
    name = "layers.0.ffn.experts.3.w1.scale"
    spoiled.poke(name, 7, b"\xff")
    with Checkpoint.open(spoiled.directory) as checkpoint:
        mapped = MappedExperts(checkpoint, plans)
        experts = mapped if capacity is None else CachedExperts(mapped, capacity)
        list(experts.arrivals(0, [2]))
        for _ in range(2):  # the second time too
            with pytest.raises(TensorError, match=rf"`{name}` is NaN \(code 255\) at \[1, 2\] in `model-"):
                list(experts.arrivals(0, [3]))
