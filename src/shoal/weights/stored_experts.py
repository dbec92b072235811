"""Routed experts as they lie in the shards, read whole into memory of the caller's."""

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from shoal.checkpoint.direct_file import DirectFile, Notice
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.ops.mixture import ExpertWeights
from shoal.ops.weights import Float4Weight
from shoal.weights.expert_extents import MATRICES, ExpertExtents, Extent, expert_extents, tensor_names
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

    def close(self) -> None:
        """No read may be under way."""
        ...


class StoredExperts:
    """An `ExpertSource` over the shards of a checkpoint."""

    def __init__(
        self, checkpoint: Checkpoint, config: ModelConfig, plans: Sequence[LayerPlan], notice: Notice | None = None
    ) -> None:
        self.checkpoint, self._notice = checkpoint, notice
        self._prefixes = {plan.layer_id: f"{plan.prefix}.ffn.experts" for plan in plans}
        self._extents = {key: self._find(key) for key in expert_keys(config, plans)}
        self.keys: Sequence[Key] = tuple(self._extents)
        self.slot_nbytes = max(extents.nbytes for extents in self._extents.values())
        self._files = dict[Path, DirectFile]()
        self._opening = threading.Lock()

    def nbytes(self, key: Key) -> int:
        return self._extents[key].nbytes

    def extents(self, key: Key) -> tuple[Extent, ...]:
        """The reads that bring an expert."""
        return self._extents[key].extents

    def read(self, key: Key, room: Tensor) -> ExpertWeights:
        layout, view = self._extents[key], room.numpy().data
        for extent in layout.extents:
            into = view[extent.place : extent.place + extent.nbytes]
            self._file(extent.path, extent.name).read(into, extent.start, extent.wanted)
        prefix = self._prefix(key)
        return ExpertWeights(*(self._matrix(f"{prefix}.{matrix}", layout, room) for matrix in MATRICES))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _prefix(self, key: Key) -> str:
        return f"{self._prefixes[key[0]]}.{key[1]}"

    def _find(self, key: Key) -> ExpertExtents:
        return expert_extents([self.checkpoint.entry(name) for name in tensor_names(self._prefix(key))])

    def _file(self, path: Path, name: str) -> DirectFile:
        """The shard of the tensor `name`, opened when first needed."""
        with self._opening:
            if path not in self._files:
                self._files[path] = DirectFile(path, partial(self.checkpoint.check, name), self._say)
            return self._files[path]

    def _say(self, text: str) -> None:
        """Told once: what is true of one shard is true of its neighbours."""
        notice, self._notice = self._notice, None
        if notice is not None:
            notice(text)

    def _matrix(self, name: str, layout: ExpertExtents, room: Tensor) -> Float4Weight:
        codes = self._tensor(f"{name}.weight", layout, room)
        scales = self._tensor(f"{name}.scale", layout, room)
        refuse_nan_scales(scales, f"{name}.scale", self.checkpoint.entry(f"{name}.scale").path.name)
        return Float4Weight(codes, scales)

    def _tensor(self, name: str, layout: ExpertExtents, room: Tensor) -> Tensor:
        entry, place = self.checkpoint.entry(name), layout.places[name]
        view = room[place : place + entry.nbytes].view(entry.shape)
        assert view.dtype == torch.uint8, view.dtype
        return view
