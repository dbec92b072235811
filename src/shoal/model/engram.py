"""Engram: a layer's streams take a gated value from table rows that the token ids address (spec §6.3)."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import BFloat16, Int64
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.engram_memory import EngramWeights, apply_memory
from shoal.ops.quantize import Quantized


@runtime_checkable
class EngramRows(Protocol):
    """Where Engram rows come from: the mapped shards, a row cache, or memory."""

    def request(self, layer_id: int, row_ids: Sequence[int]) -> None:
        """Say that these rows will be asked for. Returns at once; may be ignored."""
        ...

    def gather(self, layer_id: int, row_ids: Int64[Tensor, "rows"]) -> Quantized:
        """The rows in Q8 layout (E4M3 codes, one E8M0 scale per 32 columns), in the order asked for, repeats allowed.

        Raises a `ShoalError` when they cannot be read or hold a NaN scale.
        """
        ...


class Engram:
    """The Engram of one layer, applied to all streams before anything else of the layer."""

    def __init__(
        self, weights: EngramWeights, rows: EngramRows, plan: LayerPlan, config: ModelConfig, arithmetic: Arithmetic
    ) -> None:
        assert plan.engram_index is not None, plan
        self.weights, self.rows, self.plan, self.arithmetic = weights, rows, plan, arithmetic
        self.index, self.eps = plan.engram_index, float(config.norm_eps)

    def forward(
        self, streams: BFloat16[Tensor, "tokens streams dim"], step: Step
    ) -> BFloat16[Tensor, "tokens streams dim"]:
        """h + gate·value for every stream; rows inside an image take nothing."""
        name = f"L{self.plan.layer_id}.engram"
        row_ids = step.engram_rows[self.index]
        step.record(f"{name}.hash_ids", row_ids)
        step.record(f"{name}.stream_in", streams)
        rows = self.rows.gather(self.plan.layer_id, row_ids.flatten())
        streams = apply_memory(rows, streams, self.weights, step.batch.image_mask, self.eps, self.arithmetic)
        step.record(f"{name}.stream_out", streams)
        return streams
