"""Attention of one layer: window ring, the chunk's own rows, selected compressed entries (spec §4.2).

There is no norm on q after wq_b.
"""

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
from shoal.ops.index_scores import ABSENT
from shoal.ops.quantize import Quantized
from shoal.ops.rms_norm import rms_norm
from shoal.ops.rope import rotate
from shoal.ops.sparse_attention import sparse_attention
from shoal.ops.weights import Float8Weight, dequantize_weight


@dataclass(frozen=True)
class AttentionWeights:
    """The projections every layer has."""

    wq_a: Float8Weight
    q_norm: BFloat16[Tensor, "q_rank"]
    wq_b: Float8Weight
    wkv: Float8Weight
    kv_norm: BFloat16[Tensor, "head_dim"]
    wo_a: Float8Weight
    wo_b: Float8Weight
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

    def forward(self, x: BFloat16[Tensor, "tokens dim"], step: Step) -> BFloat16[Tensor, "tokens dim"]:
        """Attend, and write the window rings afterwards."""
        w, arithmetic, eps = self.weights, self.arithmetic, float(self.config.norm_eps)
        rotation = step.yarn_rotation if self.plan.uses_yarn else step.window_rotation
        x_q8 = arithmetic.quantize_q8(x)
        qr = rms_norm(arithmetic.quantized_linear(x_q8, w.wq_a), w.q_norm, eps, arithmetic)
        qr_q8 = arithmetic.quantize_q8(qr)
        q = arithmetic.quantized_linear(qr_q8, w.wq_b)
        q = rotate(q.unflatten(1, (self.config.n_heads, self.config.head_dim)), rotation)
        kv = rms_norm(arithmetic.quantized_linear(x_q8, w.wkv), w.kv_norm, eps, arithmetic)
        kv_q8 = arithmetic.quantize_q8(rotate(kv, rotation))
        if self.compressor is not None:
            self.compressor.extend(x, step)
        if self.indexer is not None:
            self.indexer.select(x, qr_q8, step)
        attended = [
            self._attend(q[span.rows], kv_q8[span.rows], number, cache, step)
            for number, span, cache in step.sequences()
        ]
        return self._project(rotate(torch.cat(attended), rotation.inverse()))

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

    def _project(self, o: BFloat16[Tensor, "tokens heads head_dim"]) -> BFloat16[Tensor, "tokens dim"]:
        """Grouped bf16 projection of unquantised heads, then a quantised one (spec §4.2 step 7)."""
        groups = self.config.o_groups
        wo_a = dequantize_weight(self.weights.wo_a).unflatten(0, (groups, -1))
        t = self.arithmetic.grouped_linear(o.reshape(o.shape[0], groups, -1), wo_a)
        return self.arithmetic.quantized_linear(self.arithmetic.quantize_q8(t.flatten(1)), self.weights.wo_b)
