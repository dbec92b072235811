"""Attention of one layer: window ring, the chunk's own rows, selected compressed entries (spec §4.2)."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32, Int64
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.cache import SequenceCache
from shoal.model.compressor import Compressor
from shoal.model.indexer import Indexer
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.attention_projections import InputProjections, OutputProjections, project_in, project_out
from shoal.ops.index_scores import ABSENT
from shoal.ops.quantize import Quantized
from shoal.ops.rope import rotate
from shoal.ops.sparse_attention import sparse_attention
from shoal.ops.sublayer import Entered


@dataclass(frozen=True)
class AttentionWeights:
    """What every layer's attention has."""

    input: InputProjections
    output: OutputProjections
    sink: Float32[Tensor, "heads"]


class Attention:
    """One layer's attention. `compressor` and `indexer` are None where the plan has none."""

    def __init__(
        self,
        weights: AttentionWeights,
        compressor: Compressor | None,
        indexer: Indexer | None,
        plan: LayerPlan,
        config: ModelConfig,
        arithmetic: Arithmetic,
    ) -> None:
        self.weights, self.compressor, self.indexer = weights, compressor, indexer
        self.plan, self.config, self.arithmetic = plan, config, arithmetic

    def forward(
        self, entered: Entered, streams: BFloat16[Tensor, "tokens streams dim"], step: Step
    ) -> tuple[BFloat16[Tensor, "tokens dim"], BFloat16[Tensor, "tokens streams dim"]]:
        """Attention's output and the streams it returns to; the window rings are written after attending."""
        rotation = step.yarn_rotation if self.plan.uses_yarn else step.window_rotation
        projected = project_in(entered.x_q8, self.weights.input, rotation, float(self.config.norm_eps), self.arithmetic)
        if self.compressor is not None:
            self.compressor.extend(entered.x, step)
        if self.indexer is not None:
            self.indexer.select(entered.x, projected.qr, step)
        attended = [
            self._attend(projected.q[span.rows], projected.kv[span.rows], number, cache, step)
            for number, span, cache in step.sequences()
        ]
        o = rotate(torch.cat(attended), rotation.inverse())
        return project_out(o, self.weights.output, streams, entered.mix, self.arithmetic)

    def _attend(
        self, q: BFloat16[Tensor, "tokens heads dim"], kv: Quantized, number: int, cache: SequenceCache, step: Step
    ) -> BFloat16[Tensor, "tokens heads dim"]:
        ring = cache.rings[self.plan.layer_id]
        past = ring.read()
        pool, columns = [past, kv.dequantize()], [self._window_columns(ring.length, q.shape[0], past.shape[0])]
        if self.plan.kv_source is not None:
            entries, selected = self._entries(step.selected[number], cache, past.shape[0] + q.shape[0])
            pool.append(entries)
            columns.append(selected)
        out = sparse_attention(q, torch.cat(pool), torch.cat(columns, dim=1), self.weights.sink, self.arithmetic)
        ring.write(kv)
        return out

    def _window_columns(self, position: int, tokens: int, held: int) -> Int64[Tensor, "tokens window"]:
        """Pool rows of each query's window, ascending, absent ones at the end (spec §4.2 step 3).

        Pool row 0 is position `position − held`.
        """
        queries = torch.arange(position, position + tokens)[:, None]
        window = torch.arange(self.config.window_size)
        keys = (queries - self.config.window_size + 1).clamp_min(0) + window
        return (keys - (position - held)).masked_fill(keys > queries, ABSENT)

    def _entries(
        self, selected: Int64[Tensor, "tokens count"], cache: SequenceCache, first_row: int
    ) -> tuple[BFloat16[Tensor, "entries dim"], Int64[Tensor, "tokens count"]]:
        """The compressed entries that are read, and the pool rows they get behind `first_row` others."""
        assert self.plan.kv_source is not None
        wanted = selected[selected != ABSENT].unique()
        rows = torch.searchsorted(wanted, selected) + first_row
        return cache.entries[self.plan.kv_source].read(wanted), rows.masked_fill(selected == ABSENT, ABSENT)
