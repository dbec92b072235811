"""Routed experts straight from the mapped shards."""

from collections.abc import Callable, Iterator, Sequence

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.ops.mixture import ExpertWeights
from shoal.weights.expert_key import Key
from shoal.weights.expert_names import MATRICES, tensor_names
from shoal.weights.reader import mapped_float4, refuse_nan_scales


class MappedExperts:
    """Experts as views of the shards: the page cache is the store. Scales are checked when an expert is first used."""

    def __init__(self, checkpoint: Checkpoint, plans: Sequence[LayerPlan]) -> None:
        self.checkpoint = checkpoint
        self.prefixes = {plan.layer_id: f"{plan.prefix}.ffn.experts" for plan in plans}
        self._known: dict[Key, tuple[ExpertWeights, frozenset[str]]] = {}

    def request(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """Ignored: the kernel reads pages when they are touched."""

    def expect(self, layer_id: int, guess: Callable[[], Sequence[int]]) -> None:
        """Ignored too."""

    def arrivals(self, layer_id: int, expert_ids: Sequence[int]) -> Iterator[list[tuple[int, ExpertWeights]]]:
        """All of them at once, in the order asked for, after a look at the shards that hold them."""
        found = [self._expert(layer_id, expert_id) for expert_id in expert_ids]
        for name in set[str]().union(*(names for _, names in found)):
            self.checkpoint.check(name)
        yield [(expert_id, weights) for expert_id, (weights, _) in zip(expert_ids, found, strict=True)]

    def _expert(self, layer_id: int, expert_id: int) -> tuple[ExpertWeights, frozenset[str]]:
        """The views, made and checked once, and a tensor's name for each shard they lie in."""
        if (layer_id, expert_id) not in self._known:
            prefix = f"{self.prefixes[layer_id]}.{expert_id}"
            names = [f"{prefix}.{part}" for part in MATRICES]
            matrices = [mapped_float4(self.checkpoint, name) for name in names]
            for name, matrix in zip(names, matrices, strict=True):
                refuse_nan_scales(matrix.scales, f"{name}.scale", self._shard(f"{name}.scale"))
            shards = frozenset({self._shard(tensor): tensor for tensor in tensor_names(prefix)}.values())
            self._known[layer_id, expert_id] = ExpertWeights(*matrices), shards
        return self._known[layer_id, expert_id]

    def _shard(self, tensor: str) -> str:
        return self.checkpoint.entry(tensor).path.name
