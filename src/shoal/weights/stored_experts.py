"""Routed experts as they lie in the shards, read whole into memory of the caller's."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from shoal.checkpoint.direct_file import DirectFile, Notice
from shoal.checkpoint.direct_shards import DirectShards
from shoal.checkpoint.extents import Extent, Extents, find_extents
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.ops.mixture import ExpertWeights
from shoal.ops.weights import Float4Weight
from shoal.weights.expert_key import Key, expert_keys
from shoal.weights.expert_names import MATRICES, tensor_names
from shoal.weights.expert_reader import ExpertReader
from shoal.weights.reader import refuse_nan_scales


class Part(NamedTuple):
    """Where a tensor of an expert lies in the memory it is read into."""

    name: str
    start: int
    nbytes: int
    shape: tuple[int, int]

    def of(self, room: Tensor) -> Tensor:
        """uint8, a view."""
        # In one call: each takes longer than a disk needs for a hundred kilobytes.
        return room.as_strided(self.shape, (self.shape[1], 1), room.storage_offset() + self.start)


class Layout(NamedTuple):
    """The reads that bring an expert, and of each matrix its codes and scales."""

    reads: Extents
    matrices: tuple[tuple[Part, Part], ...]

    def scale_spans(self) -> list[tuple[int, int]]:
        """Where scales lie, [start, end): those side by side, as in the release, together."""
        spans = list[tuple[int, int]]()
        for part in sorted((scales for _, scales in self.matrices), key=lambda part: part.start):
            if spans and spans[-1][1] == part.start:
                spans[-1] = spans[-1][0], part.start + part.nbytes
            else:
                spans.append((part.start, part.start + part.nbytes))
        return spans


class StoredExperts:
    """An `ExpertSource` over the shards of a checkpoint. The scales of an expert are looked at when it first comes."""

    def __init__(
        self, checkpoint: Checkpoint, config: ModelConfig, plans: Sequence[LayerPlan], notice: Notice | None = None
    ) -> None:
        self.checkpoint, self._shards = checkpoint, DirectShards(checkpoint, notice)
        self._prefixes = {plan.layer_id: f"{plan.prefix}.ffn.experts" for plan in plans}
        self._layouts = {key: self._find(key) for key in expert_keys(config, plans)}
        self._looked_at = set[Key]()
        self.keys: Sequence[Key] = tuple(self._layouts)
        self.slot_nbytes = max(layout.reads.nbytes for layout in self._layouts.values())

    def nbytes(self, key: Key) -> int:
        return self._layouts[key].reads.nbytes

    def disk(self, key: Key) -> int:
        """A number of the disk that most of an expert is on."""
        largest = max(self._layouts[key].reads.extents, key=lambda extent: extent.nbytes)
        return self.checkpoint.device(largest.names[0])

    def extents(self, key: Key) -> tuple[Extent, ...]:
        """The reads that bring an expert."""
        return self._layouts[key].reads.extents

    def file(self, extent: Extent) -> DirectFile:
        """What an extent is read from. Raises FileChangedError where it is no longer what it was."""
        return self._shards.file(extent)

    def reader(self, num_threads: int) -> ExpertReader:
        return ExpertReader(self, num_threads)

    def weights(self, key: Key, room: Tensor) -> ExpertWeights:
        """Where an expert lies in `room`, uint8 [slot_nbytes] from a page on, once it has been read into it."""
        matrices = self._layouts[key].matrices
        return ExpertWeights(*(Float4Weight(codes.of(room), scales.of(room)) for codes, scales in matrices))

    def new_scales(self, key: Key) -> Sequence[tuple[int, int]]:
        """Where in its room an expert has scales that were not looked at yet, [start, end) each."""
        # Once: a shard that is no longer the file it was is refused, and each look brings a megabyte from memory.
        return () if key in self._looked_at else self._layouts[key].scale_spans()

    def accept(self, key: Key, room: Tensor, *, has_nan: bool) -> None:
        """The expert was read into `room`, and `new_scales` looked at. Raises TensorError where one is NaN."""
        if has_nan:
            for _, scales in self._layouts[key].matrices:
                refuse_nan_scales(scales.of(room), scales.name, self.checkpoint.entry(scales.name).path.name)
        self._looked_at.add(key)

    def close(self) -> None:
        self._shards.close()

    def _find(self, key: Key) -> Layout:
        prefix = f"{self._prefixes[key[0]]}.{key[1]}"
        reads = find_extents([self.checkpoint.entry(name) for name in tensor_names(prefix)])
        matrices = tuple(
            (self._part(f"{prefix}.{matrix}.weight", reads), self._part(f"{prefix}.{matrix}.scale", reads))
            for matrix in MATRICES
        )
        return Layout(reads, matrices)

    def _part(self, name: str, reads: Extents) -> Part:
        entry, start = self.checkpoint.entry(name), reads.places[name]
        rows, columns = entry.shape
        return Part(name, start, entry.nbytes, (rows, columns))
