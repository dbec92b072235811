"""What a sequence remembers between forwards, and nothing else (spec §5).

A pass is one forward. The cache can be cut back to any length of its last pass; further back needs a snapshot or a
fork, because a ring holds only `window_size` positions.
"""

from copy import copy

from torch import Tensor, from_numpy

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.errors import SnapshotError
from shoal.model.open_group import OpenGroup
from shoal.model.packed_rows import PackedRows
from shoal.model.page_pool import PagePool
from shoal.model.page_table import PageTable
from shoal.model.token_history import TokenHistory
from shoal.model.window_ring import WindowRing
from shoal.ops.quantize import Q4C, Q4I
from shoal.plan.page_layout import PAGE_TOKENS


class SequenceCache:
    """Window rings, compressed entries, index keys, open groups, Engram history and length of one sequence.

    Entries and keys lie in pages of `pool`, taken as the sequence grows, those of `reserved` tokens at once. Without a
    pool it has one of its own, without a limit, which asks the system for the memory of `reserved` tokens in one piece.
    """

    def __init__(
        self, config: ModelConfig, plans: tuple[LayerPlan, ...], reserved: int = 0, pool: PagePool | None = None
    ) -> None:
        backbone = [plan for plan in plans if not plan.is_draft]
        sources = [plan for plan in backbone if plan.owns_kv]
        self.rings = {p.layer_id: WindowRing(config.window_size, config.head_dim) for p in backbone}
        self.pool = pool or PagePool(config, plans, expected=-(-reserved // PAGE_TOKENS))
        self._lay_rows(PageTable(self.pool))
        self.open_groups = {
            p.layer_id: OpenGroup(p.compress_ratio, config.head_dim, config.window_size)
            for p in sources
            if p.compress_ratio > 1
        }
        self.history = TokenHistory(max(config.engram_max_ngram_size - 1, 0))
        self.length = 0
        self._pass_start = 0
        self._window = config.window_size
        self._ratios = {p.layer_id: p.compress_ratio for p in sources}
        if pool is not None:
            self.reserve(reserved)

    def reserve(self, length: int) -> None:
        """Take what pages the sequence lacks to grow to `length`, and copy the one it would write into if it is shared.

        Raises `CacheFullError`, having changed nothing that is remembered. Cutting back gives unused pages back.
        """
        layout = self.pool.layout
        self._table.reserve(self.length // layout.tokens, layout.pages_for(length))

    def fork(self) -> "SequenceCache":
        """Another sequence with the same past. Pages are shared until one of both writes into them; the rest is copied.

        Either goes on, is cut back and ends as if the other did not exist.
        """
        other = copy(self)
        other.rings = {layer: ring.fork() for layer, ring in self.rings.items()}
        other._table = table = self._table.fork()
        other.entries = {layer: rows.fork(table) for layer, rows in self.entries.items()}
        other.index_keys = {layer: rows.fork(table) for layer, rows in self.index_keys.items()}
        other.open_groups = {layer: group.fork() for layer, group in self.open_groups.items()}
        other.history = self.history.fork()
        return other

    def settle(self) -> None:
        """Make the last pass final: it can no longer be cut back, and what that would take is let go."""
        parts: tuple[WindowRing | OpenGroup | TokenHistory, ...]
        parts = *self.rings.values(), *self.open_groups.values(), self.history
        for part in parts:
            part.settle()
        self._pass_start = self.length

    def release(self) -> None:
        """Give everything back at once; the sequence cannot go on. One that is merely dropped gives its pages later."""
        self._table.truncate(0)
        for parts in (self.rings, self.entries, self.index_keys, self.open_groups):
            parts.clear()

    def commit(self, count: int) -> None:
        """End a pass of `count` tokens, which every layer has written."""
        self._pass_start, self.length = self.length, self.length + count

    def abandon(self) -> None:
        """Undo a pass that was interrupted, whichever layers it had reached. The pass before it is final."""
        self._cut(self.length)
        # A ring the interrupted pass reached remembers that pass alone.
        self._pass_start = self.length

    def truncate(self, length: int) -> None:
        """Cut back to `length`: the start of the last pass, its end, or between if it fitted the window.

        Continuing gives the bits of a sequence that never went further.
        """
        assert self.can_truncate(length), (self._pass_start, length, self.length)
        self._cut(length)
        self.length = length

    def can_truncate(self, length: int) -> bool:
        """Whether `truncate(length)` is possible without a snapshot."""
        if length in (self._pass_start, self.length):
            return True
        return self._pass_start < length < self.length and self.length - self._pass_start <= self._window

    @property
    def page_ids(self) -> tuple[int, ...]:
        """The pages that the sequence refers to, some of them perhaps with others."""
        return tuple(self._table.ids)

    @property
    def num_pages(self) -> int:
        """How many pages those are."""
        return len(self._table.ids)

    @property
    def fixed_nbytes(self) -> int:
        """Bytes of rings and open groups, which are never shared."""
        parts: tuple[WindowRing | OpenGroup, ...] = (*self.rings.values(), *self.open_groups.values())
        return sum(part.nbytes for part in parts)

    @property
    def nbytes(self) -> int:
        """Bytes of everything, whole pages included whoever shares them."""
        return self.fixed_nbytes + self.num_pages * self.pool.layout.nbytes

    @property
    def own_nbytes(self) -> int:
        """Bytes that nobody shares: what `release` sets free now."""
        own = sum(self.pool.references(page_id) == 1 for page_id in self._table.ids)
        return self.fixed_nbytes + own * self.pool.layout.nbytes

    def state(self) -> dict[str, Tensor]:
        """Copies of everything, by names that say where each belongs."""
        parts = {f"ring.{layer}": ring.state() for layer, ring in self.rings.items()}
        parts |= {f"entries.{layer}": rows.state() for layer, rows in self.entries.items()}
        parts |= {f"index_keys.{layer}": rows.state() for layer, rows in self.index_keys.items()}
        parts |= {f"open_group.{layer}": group.state() for layer, group in self.open_groups.items()}
        state = {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}
        return state | {"history": from_numpy(self.history.ids.copy())}

    def load(self, state: dict[str, Tensor], length: int) -> None:
        """Take over what `state` of a sequence of `length` tokens returned, checked against this model's shapes.

        Raises `SnapshotError` or `CacheFullError`, having changed nothing.
        """
        self._check_state(state, length)
        table = PageTable(self.pool)
        table.reserve(0, self.pool.layout.pages_for(length))
        self._table.truncate(0)
        self._lay_rows(table)
        for layer, ring in self.rings.items():
            ring.load(_part(state, f"ring.{layer}"), length)
        for layer, rows in self.entries.items():
            rows.load(_part(state, f"entries.{layer}"))
        for layer, rows in self.index_keys.items():
            rows.load(_part(state, f"index_keys.{layer}"))
        for layer, group in self.open_groups.items():
            group.load(_part(state, f"open_group.{layer}"), length)
        self.history.load(state["history"].numpy(), length)
        self.length = self._pass_start = length

    def _lay_rows(self, table: PageTable) -> None:
        """Start without rows, in the pages of `table`."""
        layout = self.pool.layout
        self._table = table
        self.entries = {layer: PackedRows(Q4C, part, table) for layer, part in layout.entries.items()}
        self.index_keys = {layer: PackedRows(Q4I, part, table) for layer, part in layout.index_keys.items()}

    def _cut(self, length: int) -> None:
        for ring in self.rings.values():
            ring.truncate(min(length, ring.length))
        for layer, ratio in self._ratios.items():
            self.entries[layer].truncate(length // ratio)
            self.index_keys[layer].truncate(length // ratio)
        self._table.truncate(self.pool.layout.pages_for(length))
        for group in self.open_groups.values():
            group.truncate(min(length, group.length))
        self.history.truncate(min(length, self.history.length))

    def _check_state(self, state: dict[str, Tensor], length: int) -> None:
        wanted = self.state()
        if state.keys() != wanted.keys():
            odd = sorted(state.keys() ^ wanted.keys())[0]
            raise SnapshotError(f"the snapshot is of another model: `{odd}` is in only one of them")
        for name, tensor in wanted.items():
            shape = self._expected_shape(name, tuple(tensor.shape), length)
            found = state[name]
            if tuple(found.shape) != shape or found.dtype != tensor.dtype:
                raise SnapshotError(
                    f"`{name}` of the snapshot is {list(found.shape)} {found.dtype}, "
                    f"expected {list(shape)} {tensor.dtype} at length {length}"
                )

    def _expected_shape(self, name: str, shape: tuple[int, ...], length: int) -> tuple[int, ...]:
        part, _, rest = name.partition(".")
        if part in ("entries", "index_keys"):
            return (length // self._ratios[int(rest.split(".")[0])], *shape[1:])
        if part == "open_group":
            return (length % self._ratios[int(rest.split(".")[0])], *shape[1:])
        return shape


def _part(state: dict[str, Tensor], part: str) -> dict[str, Tensor]:
    prefix = f"{part}."
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
