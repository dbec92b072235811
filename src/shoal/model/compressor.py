"""The compressor of a Full layer: attention inputs to stored latents and index keys (spec §4.4, §4.5)."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32, Int64
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.pooling import pool_groups
from shoal.ops.quantize import Quantized, quantize_q4c, quantize_q4i
from shoal.ops.rms_norm import rms_norm
from shoal.ops.rope import rotate, rotation_at


@dataclass(frozen=True)
class CompressorWeights:
    """`wgate` is None where the ratio is 1."""

    wkv: BFloat16[Tensor, "head_dim dim"]
    wgate: BFloat16[Tensor, "head_dim dim"] | None
    norm: BFloat16[Tensor, "head_dim"]
    index_wk: BFloat16[Tensor, "index_dim head_dim"]
    index_k_norm: BFloat16[Tensor, "index_dim"]


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
        latents, counts = self._latents(x, step)
        starts = [cache.entries[self.plan.layer_id].count for cache in step.caches]
        positions = torch.cat([torch.arange(s, s + n) for s, n in zip(starts, counts, strict=True)])
        # Ranked before the cache write: an index key is the latent before rope and before quantisation.
        keys = self._index_keys(latents, positions)
        # A group sits at the position of its first token.
        rotation = rotation_at(positions * self.plan.compress_ratio, self.frequencies, self.arithmetic)
        entries = quantize_q4c(rotate(latents, rotation))
        start = 0
        for cache, count in zip(step.caches, counts, strict=True):
            rows = slice(start, start + count)
            cache.entries[self.plan.layer_id].append(entries[rows])
            cache.index_keys[self.plan.layer_id].append(keys[rows])
            start += count

    def _latents(
        self, x: BFloat16[Tensor, "tokens dim"], step: Step
    ) -> tuple[BFloat16[Tensor, "groups head_dim"], list[int]]:
        """The normed latents of all completed groups, sequence after sequence, and how many each completes."""
        if self.weights.wgate is None:
            pooled = self.arithmetic.linear_bfloat16(x, self.weights.wkv)
            counts = [span.count for span in step.batch.spans]
        else:
            pooled, counts = self._pooled(x, self.weights.wgate, step)
        return rms_norm(pooled, self.weights.norm, self.eps, self.arithmetic), counts

    def _pooled(
        self, x: BFloat16[Tensor, "tokens dim"], wgate: BFloat16[Tensor, "head_dim dim"], step: Step
    ) -> tuple[BFloat16[Tensor, "groups head_dim"], list[int]]:
        values = self.arithmetic.linear_float32(x, self.weights.wkv)
        gates = self.arithmetic.linear_float32(x, wgate)
        parts, counts = [], []
        for _, span, cache in step.sequences():
            group = cache.open_groups[self.plan.layer_id]
            parts.append(pool_groups(*group.extend(values[span.rows], gates[span.rows]), self.arithmetic))
            counts.append(parts[-1].shape[0])
        return torch.cat(parts), counts

    def _index_keys(
        self, latents: BFloat16[Tensor, "groups head_dim"], positions: Int64[Tensor, "groups"]
    ) -> Quantized:
        keys = self.arithmetic.linear_bfloat16(latents, self.weights.index_wk)
        keys = rms_norm(keys, self.weights.index_k_norm, self.eps, self.arithmetic)
        rotation = rotation_at(positions * self.plan.compress_ratio, self.frequencies, self.arithmetic)
        return quantize_q4i(rotate(keys, rotation))
