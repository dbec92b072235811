"""Where two traces part: the first difference in execution order, and every layer's.

A golden file of the released code compares too: its picks carry an offset, its routing comes in another order, it may
hold some rows only (`sel_positions`, the last row of `logits`, one row a decode step under `s{position}.`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from shoal.tracing.alignment import Alignment
from shoal.tracing.distance import Distance, differs, distance
from shoal.tracing.order import execution_order, parse_name


@dataclass(frozen=True)
class Difference:
    """One tensor of both traces: how far apart, None where shapes do not fit. `rows` of `num_rows` differ."""

    name: str
    distance: Distance | None
    rows: int
    num_rows: int
    shapes: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def is_same(self) -> bool:
        """Whether the tensors are identical."""
        return self.distance is not None and self.distance.is_zero


@dataclass(frozen=True)
class Comparison:
    """`compared` in execution order, and the names that only one of the traces has."""

    compared: tuple[Difference, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]

    @property
    def first(self) -> Difference | None:
        """The first tensor that differs; None where none does."""
        return next((difference for difference in self.compared if not difference.is_same), None)

    @property
    def is_same(self) -> bool:
        """Whether there was something to compare and all of it is identical."""
        return bool(self.compared) and self.first is None


def compare(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Comparison:
    """Compare every tensor that both have; of two of them only one is in memory at a time.

    Raises TensorError where `sel_positions` names rows that are not there.
    """
    alignment = Alignment.between(a, b)
    names = {name: alignment.counterparts(name) for name in (*a, *b)}
    pairs = {name: pair for name, pair in names.items() if pair is not None}
    seen_a, seen_b = {pair[0] for pair in pairs.values()}, {pair[1] for pair in pairs.values()}
    compared = [_difference(name, *alignment.aligned(*pairs[name])) for name in sorted(pairs, key=_order(pairs))]
    return Comparison(
        tuple(compared),
        tuple(sorted((name for name in a if name not in seen_a), key=execution_order)),
        tuple(sorted((name for name in b if name not in seen_b), key=execution_order)),
    )


def _order(names: Mapping[str, object]) -> Callable[[str], tuple[object, ...]]:
    """Execution order; what carries no step comes after the decode steps, where there are any."""
    is_stepwise = any(parse_name(name).step is not None for name in names)
    return lambda name: (is_stepwise and parse_name(name).step is None, *execution_order(name))


def _difference(name: str, a: Tensor, b: Tensor) -> Difference:
    shapes = (tuple(a.shape), tuple(b.shape))
    num_rows = a.shape[0] if a.dim() else 1
    if a.shape != b.shape:
        return Difference(name, None, num_rows, num_rows, shapes)
    rows = differs(a, b).reshape(num_rows, -1).any(1).sum() if a.numel() else 0
    return Difference(name, distance(a, b), int(rows), num_rows, shapes)
