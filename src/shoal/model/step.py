"""One forward's working state: its batch, its sequences' caches, and what earlier layers hand to later ones."""

from collections.abc import Callable
from dataclasses import dataclass, field

from jaxtyping import Bool, Int64
from torch import Tensor

from shoal.model.batch import Batch, Span
from shoal.model.cache import SequenceCache
from shoal.ops.rotation import Rotation

Recorder = Callable[[str, Tensor], None]
"""Takes every internal by the name the goldens use, for `shoal trace`."""


def record_nothing(name: str, value: Tensor) -> None:
    """The recorder of a forward nobody looks into."""


@dataclass
class Step:
    """`positions` are the batch's. `selected` and `candidates` hold, per sequence, what the last index or candidate
    source published.
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

    def sequences(self) -> list[tuple[int, Span, SequenceCache]]:
        """(number, rows, cache) of each sequence."""
        return [(i, span, cache) for i, (span, cache) in enumerate(zip(self.batch.spans, self.caches, strict=True))]
