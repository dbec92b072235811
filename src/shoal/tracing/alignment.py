"""Makes tensors of two traces comparable, element by element, whichever conventions each follows."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from shoal.checkpoint.json_object import quoted
from shoal.errors import TensorError
from shoal.ops.index_scores import ABSENT
from shoal.tracing.order import AFTER_LAYERS, ParsedName, parse_name
from shoal.tracing.recording import fill_of, widened

SELECTED_ROWS = "sel_positions"
INPUT_IDS = "input_ids"


@dataclass(frozen=True)
class _Side:
    """What one trace's conventions are. `length` is its number of tokens, None where it does not say."""

    tensors: Mapping[str, Tensor]
    length: int | None
    selected: Tensor | None
    pick_offset: int
    step_pick_offset: int

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "_Side":
        length = tensors[INPUT_IDS].numel() if INPUT_IDS in tensors else None
        window = next((tensors[name].shape[0] for name in tensors if _is_ring(tensors, name)), 0)
        return cls(
            tensors,
            length,
            tensors[SELECTED_ROWS].flatten().long() if SELECTED_ROWS in tensors else None,
            _offset(tensors, length or 0, stepwise=False),
            _offset(tensors, window, stepwise=True),
        )

    def tensor(self, name: str) -> Tensor:
        parsed, value = parse_name(name), self.tensors[name]
        if parsed.part in AFTER_LAYERS and value.dim() == 1:
            value = value[None]
        if parsed.part == "topk":
            offset = self.pick_offset if parsed.step is None else self.step_pick_offset
            value = value.long()
            return torch.where(value >= 0, value - offset, ABSENT)
        if parsed.part in ("router.indices", "router.weights"):
            return self._by_expert(name, value)
        return self._seen(name, value) if parsed.part == "candidates" else value

    def _seen(self, name: str, value: Tensor) -> Tensor:
        """Candidate blocks are kept whole; whether positions a row cannot see yet are marked depends on the chunk."""
        scores = self.tensors.get(f"{name.rpartition('.')[0]}.index_score")
        if scores is None or scores.shape != value.shape:
            return value
        return value.bool() & (scores > -torch.inf)

    def _by_expert(self, name: str, value: Tensor) -> Tensor:
        """A row's experts in ascending id: their order is that of a top-k, which is no result."""
        ids = self.tensors.get(f"{name.rpartition('.')[0]}.indices")
        if ids is None or ids.shape != value.shape or value.dim() != 2 or ids.is_floating_point():
            return value
        return value.gather(1, ids.long().argsort(dim=1, stable=True))


@dataclass(frozen=True)
class Alignment:
    """The two traces `a` and `b`, and the number of tokens that their caches hold, None where neither says."""

    a: _Side
    b: _Side
    length: int | None

    @classmethod
    def between(cls, a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> "Alignment":
        """Finds out each trace's conventions from what it holds."""
        sides = _Side.of(a), _Side.of(b)
        return cls(*sides, sides[0].length if sides[0].length is not None else sides[1].length)

    def counterparts(self, name: str) -> tuple[str, str] | None:
        """The names under which `a` and `b` hold `name`; a decode step's row may be a row of a whole run."""
        if name == SELECTED_ROWS:
            return None
        whole = parse_name(name).whole_run
        in_a = next((found for found in (name, whole) if found in self.a.tensors), None)
        in_b = next((found for found in (name, whole) if found in self.b.tensors), None)
        return None if in_a is None or in_b is None else (in_a, in_b)

    def aligned(self, name_a: str, name_b: str) -> tuple[Tensor, Tensor]:
        """The rows that both hold, of equal width where rows may be wider; shapes that still differ do not fit."""
        a, b = self.a.tensor(name_a), self.b.tensor(name_b)
        parsed = parse_name(name_a)
        if parsed.is_cache:
            return self._open_rows(parsed, a), self._open_rows(parsed, b)
        step_a, step_b = parsed.step, parse_name(name_b).step
        if step_a != step_b:
            a, b = (_row(a, step_b, name_a), b) if step_b is not None else (a, _row(b, step_a, name_b))
        a, b = _same_rows(name_a, a, b, self.b.selected), b
        b = _same_rows(name_b, b, a, self.a.selected)
        return _same_width(name_a, a, b)

    def _open_rows(self, parsed: ParsedName, value: Tensor) -> Tensor:
        """Of an open group's state only the rows of the tokens it holds mean anything."""
        if parsed.part in ("kv_state", "score_state") and self.length is not None and value.dim() and len(value):
            return value[: self.length % value.shape[0]]
        return value


def _is_ring(tensors: Mapping[str, Tensor], name: str) -> bool:
    return name.startswith("cache.") and name.endswith(".window_kv") and tensors[name].dim() == 2


def _offset(tensors: Mapping[str, Tensor], rows_in_front: int, *, stepwise: bool) -> int:
    """The released code counts picks from behind the raw keys: then no pick of the whole file lies before them."""
    for name in tensors:
        parsed = parse_name(name)
        if parsed.part == "topk" and (parsed.step is not None) == stepwise:
            picks = tensors[name]
            if bool(((picks >= 0) & (picks < rows_in_front)).any()):
                return 0
    return rows_in_front


def _row(value: Tensor, row: int | None, name: str) -> Tensor:
    assert row is not None
    if not value.dim() or row >= value.shape[0]:
        raise TensorError(f"{quoted(name)} has shape {list(value.shape)}, expected a row for position {row}")
    return value[row : row + 1]


def _same_rows(name: str, value: Tensor, other: Tensor, selected: Tensor | None) -> Tensor:
    """Of a tensor with more rows than `other`, those that `other` can be holding."""
    if not value.dim() or not other.dim() or value.shape[0] <= other.shape[0]:
        return value
    if selected is not None and other.shape[0] == selected.numel():
        if bool(((selected < 0) | (selected >= value.shape[0])).any()):
            rows = value.shape[0]
            raise TensorError(f"`{SELECTED_ROWS}` names rows that {quoted(name)} lacks, expected 0 to {rows - 1}")
        return value[selected]
    # Logits, and what leads to them, are wanted of the last rows only.
    return value[value.shape[0] - other.shape[0] :] if parse_name(name).part in AFTER_LAYERS else value


def _same_width(name: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    fill = fill_of(name)
    # Decode steps hold a row without its axis.
    if a.dim() == 2 and b.dim() == 1:
        b = b[None]
    if a.dim() == 1 and b.dim() == 2:
        a = a[None]
    if fill is None or a.dim() != 2 or b.dim() != 2 or a.shape[0] != b.shape[0]:
        return a, b
    columns = max(a.shape[1], b.shape[1])
    return widened(a, columns, fill), widened(b, columns, fill)
