"""Attention of one layer: window ring, the chunk's own rows, selected compressed entries (spec §4.2).

There is no norm on q after wq_b.
"""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.cache import SequenceCache
from shoal.model.compressor import Compressor
from shoal.model.indexer import Indexer
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.quantize import Quantized
from shoal.ops.rms_norm import rms_norm
from shoal.ops.rope import Rotation, rotate
from shoal.ops.sparse_attention import SelectedEntries, WindowKeys, attend
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
            self._attend(q[span.rows], kv_q8[span.rows], number, cache, rotation[span.rows], step)
            for number, span, cache in step.sequences()
        ]
        return self._project(torch.cat(attended))

    def _attend(
        self,
        q: BFloat16[Tensor, "tokens heads dim"],
        kv: Quantized,
        number: int,
        cache: SequenceCache,
        rotation: Rotation,
        step: Step,
    ) -> BFloat16[Tensor, "tokens heads dim"]:
        ring, source = cache.rings[self.plan.layer_id], self.plan.kv_source
        window = WindowKeys(ring.rows, kv, ring.length)
        compressed = None if source is None else SelectedEntries(cache.entries[source].room, step.selected[number])
        out = attend(q, window, compressed, self.weights.sink, rotation, self.arithmetic)
        ring.write(kv)
        return out

    def _project(self, o: BFloat16[Tensor, "tokens heads head_dim"]) -> BFloat16[Tensor, "tokens dim"]:
        """Grouped bf16 projection of unquantised heads, then a quantised one (spec §4.2 step 7)."""
        groups = self.config.o_groups
        wo_a = dequantize_weight(self.weights.wo_a).unflatten(0, (groups, -1))
        t = self.arithmetic.grouped_linear(o.reshape(o.shape[0], groups, -1), wo_a)
        return self.arithmetic.quantized_linear(self.arithmetic.quantize_q8(t.flatten(1)), self.weights.wo_b)
