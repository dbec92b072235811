"""Experts and Engram rows in so much memory, in the place of those that a model was loaded with."""

from types import TracebackType
from typing import Self

from shoal.bench.model import BenchModel
from shoal.bench.region import Say
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import plan_layers
from shoal.model.backbone import Backbone
from shoal.model.engram import EngramRows
from shoal.model.moe import Experts
from shoal.weights.cached_experts import CachedExperts, slots_within
from shoal.weights.engram_store import StoredEngramRows
from shoal.weights.row_reader import RowReader
from shoal.weights.stored_experts import StoredExperts

MISSED, STALLED, HITS, MISSES = "missed_nbytes", "stall_seconds", "hits", "misses"


class Stores:
    """The model's while it is a context; both are empty at first, and their memory is given back at the end.

    `expert_nbytes` None hold all experts. OptionError where they hold none.
    """

    def __init__(
        self, model: BenchModel, checkpoint: Checkpoint, expert_nbytes: int | None, row_nbytes: int, say: Say
    ) -> None:
        plans = [plan for plan in plan_layers(model.config) if not plan.is_draft]
        source = StoredExperts(checkpoint, model.config, plans, say)
        num_slots = len(source.keys) if expert_nbytes is None else slots_within(source, expert_nbytes)
        self.experts = CachedExperts(source, num_slots)
        self.rows = StoredEngramRows(checkpoint, plans, row_nbytes, RowReader(checkpoint, notice=say))
        self._backbone = model.backbone
        self._former = model.backbone.layers[0].moe.experts, model.backbone.engram_rows

    def __enter__(self) -> Self:
        _put(self._backbone, self.experts, self.rows)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What the model still held would stay in memory.
        _put(self._backbone, *self._former)
        self.experts.close()
        self.rows.close()

    @property
    def is_full(self) -> bool:
        """Whether as many experts came as there are slots."""
        return self.experts.statistics.reads >= self.experts.arena.num_slots

    def counts(self) -> dict[str, float]:
        """So far: bytes that were missed, seconds of waiting, experts that were there when asked for and not.

        A read begun before anybody asked counts as missed once somebody did: it had to come from the disk too.
        """
        experts, rows = self.experts.statistics, self.rows.statistics
        each = experts.read_nbytes / max(1, experts.reads)
        unasked = experts.wasted_nbytes + (experts.warmed - experts.warmed_used) * each
        return {
            MISSED: max(0.0, experts.read_nbytes - unasked) + rows.nbytes_read,
            STALLED: experts.stall_seconds + rows.stall_seconds,
            HITS: experts.hits,
            MISSES: experts.misses,
        }


def _put(backbone: Backbone, experts: Experts, rows: EngramRows) -> None:
    backbone.engram_rows = rows
    for layer in backbone.layers:
        layer.moe.experts = experts
        if layer.engram is not None:
            layer.engram.rows = rows
