"""Attention of one layer: window ring, the chunk's own rows, selected compressed entries (spec §4.2)."""

from dataclasses import dataclass
from functools import partial

from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.compressor import Compressor
from shoal.model.indexer import Indexer
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.attention_projections import InputProjections, OutputProjections, Projected, project_in, project_out
from shoal.ops.layer_kernels import Workspace
from shoal.ops.quantize import Quantized
from shoal.ops.rotation import Rotation
from shoal.ops.step_attention import NO_ENTRIES, Replaced, StepSequence, attend_step
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
        self.index(entered.x, projected.qr, step)
        o = self._attend(projected, rotation, step)
        return project_out(o, self.weights.output, streams, entered.mix, self.arithmetic)

    def index(self, x: BFloat16[Tensor, "tokens dim"], qr: Quantized, step: Step) -> None:
        """Compress the step's tokens and select what they read, in the layers that do."""
        if self.compressor is not None:
            self.compressor.extend(x, step)
        if self.indexer is not None:
            self.indexer.select(x, qr, step)
        if self.compressor is not None or self.indexer is not None:
            step.places.clear()

    def expect(self, step: Step, workspace: Workspace) -> tuple[list[tuple[int, ...]], int]:
        """The step's sequences as `LayerStages.attend` takes them, and how many entries a token reads at most.

        Their rings know what is about to be written.
        """
        layer, source, row, topk = self.plan.layer_id, self.plan.kv_source, 0, 0
        listed = list[tuple[int, ...]]()
        replaced = partial(workspace.replaced.of, layer)
        for number, (span, cache) in enumerate(zip(step.batch.spans, step.caches, strict=True)):
            ring, entries = cache.rings[layer], NO_ENTRIES
            if source is not None:
                entries, topk, _ = step.place_of(number, source)
            listed.append((span.count, span.position, *ring.addresses, *entries))
            ring.expect(span.count, replaced, row)
            row += min(span.count, self.config.window_size)
        return listed, topk

    def _attend(self, projected: Projected, rotation: Rotation, step: Step) -> BFloat16[Tensor, "tokens heads dim"]:
        source, sequences, rings, row = self.plan.kv_source, [], [], 0
        for number, span, cache in step.sequences():
            ring = cache.rings[self.plan.layer_id]
            entries, selected = (None, None) if source is None else (cache.entries[source], step.selected[number])
            sequences.append(StepSequence(span.count, span.position, ring.rows, entries, selected))
            rings.append((ring, row))
            row += sequences[-1].num_kept
        replaced = Replaced.room(row, self.config.head_dim)
        for (ring, first), one in zip(rings, sequences, strict=True):
            ring.expect(one.count, lambda: replaced, first)
        kv, sink = projected.kv, self.weights.sink
        return attend_step(projected.q, kv, sequences, sink, rotation, replaced, self.arithmetic)
