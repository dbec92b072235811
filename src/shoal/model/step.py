"""One forward's working state: its batch, its sequences' caches, and what earlier layers hand to later ones."""

from collections.abc import Callable
from dataclasses import dataclass, field

from jaxtyping import Bool, Int64
from torch import Tensor

from shoal.model.batch import Batch, Span
from shoal.model.cache import SequenceCache
from shoal.ops.addresses import address
from shoal.ops.layer_kernels import Workspace
from shoal.ops.paged_rows import Place
from shoal.ops.rotation import Rotation

Recorder = Callable[[str, Tensor], None]
"""Takes every internal by the name the goldens use, for `shoal trace`."""


def record_nothing(name: str, value: Tensor) -> None:
    """The recorder of a forward nobody looks into."""


Listed = tuple[tuple[int, int, int, int, int], int, tuple[Place, Tensor]]
"""What kernels take, the entries a token reads at most, and what must live meanwhile."""


@dataclass
class Step:
    """`positions` are the batch's. `selected` and `candidates` hold, per sequence, what the last index or candidate
    source published. `workspace` is where layers work in three native calls each; None where there are no kernels, or
    every internal is recorded.
    """

    batch: Batch
    caches: tuple[SequenceCache, ...]
    positions: Int64[Tensor, "tokens"]
    window_rotation: Rotation
    yarn_rotation: Rotation
    engram_rows: list[Int64[Tensor, "tokens columns"]]
    record: Recorder = record_nothing
    selected: dict[int, Int64[Tensor, "tokens count"]] = field(default_factory=dict)
    candidates: dict[int, Bool[Tensor, "tokens positions"]] = field(default_factory=dict)
    workspace: Workspace | None = None
    places: dict[tuple[int, int], Listed] = field(default_factory=dict)  # until entries or selections change

    def place_of(self, number: int, source: int) -> Listed:
        """Where a sequence's entries of a KV source and its selection of them lie, as kernels take it."""
        if (number, source) not in self.places:
            place, selected = self.caches[number].entries[source].place(), self.selected[number].contiguous()
            listed = address(place.addresses), place.codes, place.scales, place.shift, address(selected)
            self.places[number, source] = listed, selected.shape[1], (place, selected)
        return self.places[number, source]

    def sequences(self) -> list[tuple[int, Span, SequenceCache]]:
        """(number, rows, cache) of each sequence."""
        return [(i, span, cache) for i, (span, cache) in enumerate(zip(self.batch.spans, self.caches, strict=True))]
