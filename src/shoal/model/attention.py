"""Attention of one layer: window ring, the chunk's own rows, selected compressed entries (spec §4.2)."""

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
from shoal.ops.attention_projections import InputProjections, OutputProjections, project_in, project_out
from shoal.ops.quantize import Quantized
from shoal.ops.rotation import Rotation
from shoal.ops.sparse_attention import SelectedEntries, WindowKeys, attend
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
            self._attend(projected.q[span.rows], projected.kv[span.rows], number, cache, rotation[span.rows], step)
            for number, span, cache in step.sequences()
        ]
        # One sequence's rows are the batch's: no copy.
        o = attended[0] if len(attended) == 1 else torch.cat(attended)
        return project_out(o, self.weights.output, streams, entered.mix, self.arithmetic)

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
        compressed = None if source is None else SelectedEntries(cache.entries[source], step.selected[number])
        out = attend(q, window, compressed, self.weights.sink, rotation, self.arithmetic)
        ring.write(kv)
        return out
