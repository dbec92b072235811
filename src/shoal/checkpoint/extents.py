"""Where tensors lie in their shards, and where in memory their bytes come to lie. All from the headers' offsets."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.checkpoint.direct_file import page_end, page_start
from shoal.checkpoint.header import TensorEntry


@dataclass(frozen=True)
class Extent:
    """Tensors of one shard in one read: its pages from byte `start` go to byte `place` of the memory.

    Of `nbytes`, whole pages, the first `wanted` must be in the file. `names` are the tensors, in the file's order.
    """

    path: Path
    start: int
    nbytes: int
    wanted: int
    place: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Extents:
    """Reads in the order of the files, the bytes of memory they fill end to end, and where in them a tensor begins."""

    extents: tuple[Extent, ...]
    places: dict[str, int]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the reads fill: whole pages."""
        return sum(extent.nbytes for extent in self.extents)


def find_extents(entries: Sequence[TensorEntry]) -> Extents:
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
        names = tuple(entry.name for entry in run)
        extent = Extent(run[0].path, start, page_end(_end(run)) - start, _end(run) - start, place, names)
        places |= {entry.name: place + entry.start - start for entry in run}
        extents.append(extent)
        place += extent.nbytes
    return Extents(tuple(extents), places)


def _end(run: Sequence[TensorEntry]) -> int:
    # Not the last one's: one of no bytes may begin inside another.
    return max(entry.end for entry in run)
