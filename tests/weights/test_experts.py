"""Experts come as stored."""

from collections.abc import Sequence
from typing import Any

import pytest

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.errors import TensorError
from shoal.model.moe import Experts
from shoal.ops.mixture import ExpertWeights
from shoal.weights.experts import MappedExperts

Plans = tuple[LayerPlan, ...]


def stored_bytes(weights: ExpertWeights) -> list[bytes]:
    matrices = (weights.w1, weights.w2, weights.w3)
    return [part.numpy().tobytes() for matrix in matrices for part in (matrix.codes, matrix.scales)]


def arrived(store: Experts, layer_id: int, expert_ids: Sequence[int]) -> list[tuple[int, ExpertWeights]]:
    return [expert for group in store.arrivals(layer_id, expert_ids) for expert in group]


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


def test_a_nan_scale_is_named(spoiled: Any, plans: Plans) -> None:
    name = "layers.0.ffn.experts.3.w1.scale"
    spoiled.poke(name, 7, b"\xff")
    with Checkpoint.open(spoiled.directory) as checkpoint:
        experts = MappedExperts(checkpoint, plans)
        list(experts.arrivals(0, [2]))
        for _ in range(2):  # the second time too
            with pytest.raises(TensorError, match=rf"`{name}` is NaN \(code 255\) at \[1, 2\] in `model-"):
                list(experts.arrivals(0, [3]))
