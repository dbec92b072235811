"""What a run records, name by name: only names that were asked for are kept."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from shoal.ops.index_scores import ABSENT

# What fills a row whose chunk saw fewer compressed positions than the last one did.
FILLS: dict[str, float] = {"index_score": -torch.inf, "candidates": False, "topk": ABSENT}


def fill_of(name: str) -> float | None:
    """What stands in the columns that a row of `name` does not have; None where rows have one width."""
    return FILLS.get(name.rpartition(".")[2])


def widened(rows: Tensor, columns: int, fill: float) -> Tensor:
    """`rows` [n, fewer] with `fill` in the columns behind its own: [n, columns]."""
    wide = rows.new_full((rows.shape[0], columns), fill)
    wide[:, : rows.shape[1]] = rows
    return wide


class Recording:
    """A recorder for `Backbone.forward`. Rows of later chunks are put under the rows of earlier ones.

    `only` holds shell patterns (`L2.*`, `*.topk`), case counts; None keeps everything. `heard` takes every name, kept
    or not. Integers become int32, as in the goldens.
    """

    def __init__(self, only: Sequence[str] | None = None, heard: Callable[[str], None] | None = None) -> None:
        self.only, self.heard = only, heard
        self._chunks: dict[str, list[Tensor]] = {}

    def wants(self, name: str) -> bool:
        """Whether `name` is kept."""
        return self.only is None or any(fnmatchcase(name, pattern) for pattern in self.only)

    def __call__(self, name: str, value: Tensor) -> None:
        """Keep a copy of `value` if it was asked for."""
        if self.heard is not None:
            self.heard(name)
        if self.wants(name):
            dtype = torch.int32 if value.dtype == torch.int64 else value.dtype
            self._chunks.setdefault(name, []).append(value.to(dtype, copy=True).contiguous())

    def tensors(self) -> dict[str, Tensor]:
        """Everything kept, one tensor a name."""
        return {name: _joined(name, chunks) for name, chunks in self._chunks.items()}


def _joined(name: str, chunks: list[Tensor]) -> Tensor:
    if len(chunks) == 1:
        return chunks[0]
    fill = fill_of(name)
    if fill is not None:
        columns = max(chunk.shape[1] for chunk in chunks)
        chunks = [widened(chunk, columns, fill) for chunk in chunks]
    return torch.cat(chunks)
