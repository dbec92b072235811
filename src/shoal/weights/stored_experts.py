"""Routed experts as they lie in the shards, read whole into memory of the caller's."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from shoal.checkpoint.direct_file import Notice
from shoal.checkpoint.direct_shards import DirectShards
from shoal.checkpoint.extents import Extent, Extents, find_extents
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.ops.mixture import ExpertWeights
from shoal.ops.weights import Float4Weight
from shoal.weights.expert_names import MATRICES, tensor_names
from shoal.weights.reader import refuse_nan_scales

Key = tuple[int, int]
"""Layer and expert."""


def expert_keys(config: ModelConfig, plans: Sequence[LayerPlan]) -> list[Key]:
    """Every routed expert of the layers."""
    counts = [(plan, config.num_draft_experts if plan.is_draft else config.n_routed_experts) for plan in plans]
    return [(plan.layer_id, expert_id) for plan, count in counts for expert_id in range(count)]


@runtime_checkable
class ExpertSource(Protocol):
    """Where whole experts are read from."""

    @property
    def slot_nbytes(self) -> int:
        """Room that every expert fits in, whole pages."""
        ...

    @property
    def keys(self) -> Sequence[Key]:
        """Every expert there is."""
        ...

    def read(self, key: Key, room: Tensor) -> ExpertWeights:
        """Fill `room`, uint8 [slot_nbytes] from a page on, and say where the matrices lie in it; from any thread.

        Raises a `ShoalError` when it cannot be read or holds a NaN scale, ValueError after `close`.
        """
        ...

    def nbytes(self, key: Key) -> int:
        """Bytes that `read` takes from the disk."""
        ...

    def disk(self, key: Key) -> int:
        """A number of the disk that `read` reads most of: those of different disks do not wait for each other."""
        ...

    def close(self) -> None:
        """No read may be under way."""
        ...


class StoredExperts:
    """An `ExpertSource` over the shards of a checkpoint."""

    def __init__(
        self, checkpoint: Checkpoint, config: ModelConfig, plans: Sequence[LayerPlan], notice: Notice | None = None
    ) -> None:
        self.checkpoint, self._shards = checkpoint, DirectShards(checkpoint, notice)
        self._prefixes = {plan.layer_id: f"{plan.prefix}.ffn.experts" for plan in plans}
        self._extents = {key: self._find(key) for key in expert_keys(config, plans)}
        self.keys: Sequence[Key] = tuple(self._extents)
        self.slot_nbytes = max(extents.nbytes for extents in self._extents.values())

    def nbytes(self, key: Key) -> int:
        return self._extents[key].nbytes

    def disk(self, key: Key) -> int:
        largest = max(self._extents[key].extents, key=lambda extent: extent.nbytes)
        return self.checkpoint.device(largest.names[0])

    def extents(self, key: Key) -> tuple[Extent, ...]:
        """The reads that bring an expert."""
        return self._extents[key].extents

    def read(self, key: Key, room: Tensor) -> ExpertWeights:
        layout, view = self._extents[key], room.numpy().data
        for extent in layout.extents:
            self._shards.read(extent, view)
        prefix = self._prefix(key)
        return ExpertWeights(*(self._matrix(f"{prefix}.{matrix}", layout, room) for matrix in MATRICES))

    def close(self) -> None:
        self._shards.close()

    def _prefix(self, key: Key) -> str:
        return f"{self._prefixes[key[0]]}.{key[1]}"

    def _find(self, key: Key) -> Extents:
        return find_extents([self.checkpoint.entry(name) for name in tensor_names(self._prefix(key))])

    def _matrix(self, name: str, layout: Extents, room: Tensor) -> Float4Weight:
        codes = self._tensor(f"{name}.weight", layout, room)
        scales = self._tensor(f"{name}.scale", layout, room)
        refuse_nan_scales(scales, f"{name}.scale", self.checkpoint.entry(f"{name}.scale").path.name)
        return Float4Weight(codes, scales)

    def _tensor(self, name: str, layout: Extents, room: Tensor) -> Tensor:
        entry, place = self.checkpoint.entry(name), layout.places[name]
        view = room[place : place + entry.nbytes].view(entry.shape)
        assert view.dtype == torch.uint8, view.dtype
        return view
