"""Routed experts straight from the mapped shards, with or without a cache in memory."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.model.moe import Experts
from shoal.ops.mixture import ExpertWeights
from shoal.ops.weights import BlockScaledWeight, Float4Weight
from shoal.weights.reader import mapped_float4, refuse_nan_scales

Key = tuple[int, int]


class MappedExperts:
    """Experts as views of the shards: the page cache is the store. Scales are checked when an expert is first used."""

    def __init__(self, checkpoint: Checkpoint, plans: Sequence[LayerPlan]) -> None:
        self.checkpoint = checkpoint
        self.prefixes = {plan.layer_id: f"{plan.prefix}.ffn.experts" for plan in plans}
        self._known: dict[Key, tuple[ExpertWeights, frozenset[str]]] = {}

    def request(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """Ignored: the kernel reads pages when they are touched."""

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
            names = [f"{prefix}.{part}" for part in ("w1", "w2", "w3")]
            matrices = [mapped_float4(self.checkpoint, name) for name in names]
            for name, matrix in zip(names, matrices, strict=True):
                refuse_nan_scales(matrix.scales, f"{name}.scale", self._shard(f"{name}.scale"))
            tensors = [f"{name}.{part}" for name in names for part in ("weight", "scale")]
            shards = frozenset({self._shard(tensor): tensor for tensor in tensors}.values())
            self._known[layer_id, expert_id] = ExpertWeights(*matrices), shards
        return self._known[layer_id, expert_id]

    def _shard(self, tensor: str) -> str:
        return self.checkpoint.entry(tensor).path.name


class CachedExperts:
    """Copies of the `capacity` experts used last, in memory, before another store."""

    def __init__(self, store: Experts, capacity: int) -> None:
        assert capacity > 0, capacity
        self.store, self.capacity = store, capacity
        self.hits = self.misses = 0
        self._held: OrderedDict[Key, ExpertWeights] = OrderedDict()

    def request(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """Passed on for those not held."""
        self.store.request(layer_id, self._missing(layer_id, expert_ids))

    def arrivals(self, layer_id: int, expert_ids: Sequence[int]) -> Iterator[list[tuple[int, ExpertWeights]]]:
        """Held experts first, then the others as the store brings them, at most `capacity` at once."""
        missing = self._missing(layer_id, expert_ids)
        held = [expert_id for expert_id in expert_ids if (layer_id, expert_id) in self._held]
        for expert_id in held:
            # Taken now: an arrival below may push it out.
            self._held.move_to_end((layer_id, expert_id))
        self.hits, self.misses = self.hits + len(held), self.misses + len(missing)
        if held:
            yield [(expert_id, self._held[layer_id, expert_id]) for expert_id in held]
        # No more copies at once than the capacity allows.
        for start in range(0, len(missing), self.capacity):
            for arrived in self.store.arrivals(layer_id, missing[start : start + self.capacity]):
                yield [(expert_id, self._keep((layer_id, expert_id), weights)) for expert_id, weights in arrived]

    def _missing(self, layer_id: int, expert_ids: Sequence[int]) -> list[int]:
        return [expert_id for expert_id in expert_ids if (layer_id, expert_id) not in self._held]

    def _keep(self, key: Key, weights: ExpertWeights) -> ExpertWeights:
        copy = ExpertWeights(_copy(weights.w1), _copy(weights.w2), _copy(weights.w3))
        self._held[key] = copy
        if len(self._held) > self.capacity:
            self._held.popitem(last=False)
        return copy


def _copy(weight: BlockScaledWeight) -> BlockScaledWeight:
    assert isinstance(weight, Float4Weight), type(weight)
    return Float4Weight(weight.codes.clone(), weight.scales.clone())
