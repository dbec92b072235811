"""Where an expert lies in its shards, and where in a slot its bytes come to lie. All from the headers' offsets."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.checkpoint.direct_file import page_end, page_start
from shoal.checkpoint.header import TensorEntry

MATRICES = "w1", "w2", "w3"
PARTS = "weight", "scale"


@dataclass(frozen=True)
class Extent:
    """Tensors of one shard in one read: its pages from byte `start` go to the slot's byte `place`.

    Of `nbytes`, whole pages, the first `wanted` must be in the file. `name` is one of the tensors.
    """

    path: Path
    start: int
    nbytes: int
    wanted: int
    place: int
    name: str


@dataclass(frozen=True)
class ExpertExtents:
    """An expert's reads, the slot's bytes they fill, and where in them each tensor begins."""

    extents: tuple[Extent, ...]
    places: dict[str, int]

    @property
    def nbytes(self) -> int:
        """Bytes of the slot that the reads fill: whole pages."""
        return sum(extent.nbytes for extent in self.extents)


def tensor_names(prefix: str) -> tuple[str, ...]:
    """The six tensors of the expert `prefix`."""
    return tuple(f"{prefix}.{matrix}.{part}" for matrix in MATRICES for part in PARTS)


def expert_extents(entries: Sequence[TensorEntry]) -> ExpertExtents:
    """The fewest reads of whole pages that bring all of `entries`: those whose pages touch come together."""
    runs = list[list[TensorEntry]]()
    for entry in sorted(entries, key=lambda entry: (entry.path, entry.start)):
        if runs and runs[-1][0].path == entry.path and page_start(entry.start) <= page_end(_end(runs[-1])):
            runs[-1].append(entry)
        else:
            runs.append([entry])
    extents, places, place = list[Extent](), dict[str, int](), 0
    for run in runs:
        start = page_start(run[0].start)
        extent = Extent(run[0].path, start, page_end(_end(run)) - start, _end(run) - start, place, run[0].name)
        places |= {entry.name: place + entry.start - start for entry in run}
        extents.append(extent)
        place += extent.nbytes
    return ExpertExtents(tuple(extents), places)


def _end(run: Sequence[TensorEntry]) -> int:
    return max(entry.end for entry in run)
