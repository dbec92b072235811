"""The compressor of a Full layer: attention inputs to stored latents and index keys (spec §4.4, §4.5)."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.latents import LatentWeights, finish_latents
from shoal.ops.pooling import pool_groups
from shoal.ops.rope import rotation_at


@dataclass(frozen=True)
class CompressorWeights:
    """`wgate` is None where the ratio is 1."""

    wkv: BFloat16[Tensor, "head_dim dim"]
    wgate: BFloat16[Tensor, "head_dim dim"] | None
    latents: LatentWeights


class Compressor:
    """Appends to a layer's entries and index keys every group its sequences complete."""

    def __init__(
        self,
        weights: CompressorWeights,
        plan: LayerPlan,
        config: ModelConfig,
        frequencies: Float32[Tensor, "pairs"],
        arithmetic: Arithmetic,
    ) -> None:
        self.weights, self.plan, self.frequencies, self.arithmetic = weights, plan, frequencies, arithmetic
        self.eps = float(config.norm_eps)

    def extend(self, x: BFloat16[Tensor, "tokens dim"], step: Step) -> None:
        """Compress the step's tokens. An unfinished group is kept in float32 and produces nothing."""
        pooled, counts = self._pool(x, step)
        starts = [cache.entries[self.plan.layer_id].count for cache in step.caches]
        # A group sits at the position of its first token.
        groups = torch.tensor([s + i for s, n in zip(starts, counts, strict=True) for i in range(n)], dtype=torch.int64)
        rotation = rotation_at(groups * self.plan.compress_ratio, self.frequencies, self.arithmetic)
        entries, keys = finish_latents(pooled, self.weights.latents, rotation, self.eps, self.arithmetic)
        start = 0
        for cache, count in zip(step.caches, counts, strict=True):
            rows = slice(start, start + count)
            cache.entries[self.plan.layer_id].append(entries[rows])
            cache.index_keys[self.plan.layer_id].append(keys[rows])
            start += count

    def _pool(
        self, x: BFloat16[Tensor, "tokens dim"], step: Step
    ) -> tuple[BFloat16[Tensor, "groups head_dim"], list[int]]:
        """All groups that are completed, sequence after sequence, and how many each sequence completes."""
        if self.weights.wgate is None:
            pooled = self.arithmetic.linear_bfloat16(x, self.weights.wkv)
            return pooled, [span.count for span in step.batch.spans]
        values = self.arithmetic.linear_float32(x, self.weights.wkv)
        gates = self.arithmetic.linear_float32(x, self.weights.wgate)
        parts = [
            cache.open_groups[self.plan.layer_id].extend(values[span.rows], gates[span.rows])
            for _, span, cache in step.sequences()
        ]
        whole_values, whole_gates = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        return pool_groups(whole_values, whole_gates, self.arithmetic), [values.shape[0] for values, _ in parts]
