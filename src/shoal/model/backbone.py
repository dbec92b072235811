"""The text backbone: token ids to logits through all layers (spec §4)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import BFloat16, Float32, Int64
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.engram.hashing import Int64Array, hash_lookbacks, lookbacks
from shoal.engram.layout import EngramLayout
from shoal.engram.token_map import TokenMap
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache
from shoal.model.engram import EngramRows
from shoal.model.layer import Layer
from shoal.model.page_pool import PagePool
from shoal.model.step import Recorder, Step, record_nothing
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.hyper_connections import ordered_sum
from shoal.ops.layer_kernels import Workspace
from shoal.ops.logits import logits_of
from shoal.ops.rope import rotation_at
from shoal.plan.page_layout import PAGE_TOKENS

OnLayer = Callable[[int], None]


@dataclass(frozen=True)
class BackboneWeights:
    """What stands before and after the layers."""

    embed: BFloat16[Tensor, "vocab dim"]
    norm: BFloat16[Tensor, "dim"]
    head: BFloat16[Tensor, "vocab dim"]


@dataclass(frozen=True)
class RopeFrequencies:
    """Radians per position: layers that compress use the YaRN table, window-only layers the other (spec §4.2)."""

    window: Float32[Tensor, "pairs"]
    yarn: Float32[Tensor, "pairs"]


@dataclass(frozen=True)
class EngramAddresses:
    """How token ids become table rows."""

    layout: EngramLayout
    token_map: TokenMap

    def rows(self, ids: Int64Array) -> list[Int64Array]:
        """Of every Engram layer the rows [tokens, columns] of tokens that look back at `ids`."""
        return [hash_lookbacks(tables, ids, pad=self.token_map.pad) for tables in self.layout.layers]


@dataclass(frozen=True)
class ForwardOutput:
    """Logits of the batch's wanted rows, and per row the mean streams that enter the draft's target layers."""

    logits: Float32[Tensor, "wanted vocab"]
    draft_hidden: BFloat16[Tensor, "tokens targets_dim"]


class Backbone:
    """All layers between embedding and head. It remembers nothing: `caches` do.

    With `uses_workspace` layers take three native calls each wherever they can, else a call an operator: the same bits.
    """

    uses_workspace = True

    def __init__(
        self,
        config: ModelConfig,
        plans: tuple[LayerPlan, ...],
        weights: BackboneWeights,
        layers: Sequence[Layer],
        frequencies: RopeFrequencies,
        addresses: EngramAddresses | None,
        engram_rows: EngramRows,
        arithmetic: Arithmetic,
    ) -> None:
        self.config, self.plans, self.weights, self.layers = config, plans, weights, layers
        self.frequencies, self.addresses, self.engram_rows = frequencies, addresses, engram_rows
        self.arithmetic = arithmetic

    def new_cache(self, reserved: int = 0, pool: PagePool | None = None) -> SequenceCache:
        """A sequence that has no token yet, with room for `reserved`, in pages of `pool` or of its own."""
        return SequenceCache(self.config, self.plans, reserved, pool)

    def new_pool(self, nbytes: int | None = None, *, page_tokens: int = PAGE_TOKENS) -> PagePool:
        """Pages for the caches of many sequences: what `nbytes` hold, or as many as are asked for."""
        return PagePool(self.config, self.plans, nbytes=nbytes, page_tokens=page_tokens)

    def forward(
        self,
        batch: Batch,
        caches: Sequence[SequenceCache],
        record: Recorder = record_nothing,
        on_layer: OnLayer | None = None,
    ) -> ForwardOutput:
        """Run the batch and append it to its sequences' caches. `on_layer` is told how many layers are done.

        When anything interrupts it, such as `CacheFullError` before anything is computed, the caches are as they were.
        """
        for span, cache in zip(batch.spans, caches, strict=True):
            assert span.position == cache.length, (span, cache.length)
        try:
            for span, cache in zip(batch.spans, caches, strict=True):
                cache.reserve(cache.length + span.count)
            output = self._run(batch, tuple(caches), record, on_layer)
        except BaseException:
            for cache in caches:
                cache.abandon()
            raise
        for span, cache in zip(batch.spans, caches, strict=True):
            cache.commit(span.count)
        return output

    def expect(self, token_ids: Sequence[int], cache: SequenceCache) -> None:
        """Request the Engram rows that these ids will address once they follow the sequence."""
        if self.addresses is None:
            return
        compressed = self.addresses.token_map.compress(token_ids)
        hashed = self.addresses.rows(lookbacks(cache.history.ids, compressed))
        for tables, rows in zip(self.addresses.layout.layers, hashed, strict=True):
            self.engram_rows.request(tables.layer_id, rows.flatten().tolist())

    def _run(
        self, batch: Batch, caches: tuple[SequenceCache, ...], record: Recorder, on_layer: OnLayer | None
    ) -> ForwardOutput:
        step = self._begin(batch, caches, record)
        streams = self._embed(batch)[:, None].repeat(1, self.config.hc_mult, 1)
        record("L0.stream_in", streams)
        # The first layer sees the one-hot on stream 0; nothing else plays the role of a head mix.
        pre = torch.zeros(streams.shape[:2])
        pre[:, 0] = 1.0
        targets = []
        for layer, following in zip(self.layers, (*self.layers[1:], None), strict=True):
            if layer.engram is not None:
                streams = layer.engram.forward(streams, step)
            if layer.plan.is_draft_target:
                targets.append(_mean_stream(streams))
            streams, pre = layer.forward(streams, pre, step, following)
            if on_layer is not None:
                on_layer(layer.plan.layer_id + 1)
        hidden = torch.cat(targets, dim=1) if targets else streams.new_zeros((streams.shape[0], 0))
        record("main_hidden", hidden)
        return ForwardOutput(self._logits(streams[batch.logit_rows], pre[batch.logit_rows], record), hidden)

    def _logits(
        self, streams: BFloat16[Tensor, "wanted streams dim"], pre: Float32[Tensor, "wanted streams"], record: Recorder
    ) -> Float32[Tensor, "wanted vocab"]:
        if not streams.shape[0]:
            return torch.zeros((0, self.weights.head.shape[0]))
        w, eps = self.weights, float(self.config.norm_eps)
        x, logits = logits_of(streams, pre, w.norm, w.head, eps, self.arithmetic)
        record("final.normed", x)
        return logits

    def _begin(self, batch: Batch, caches: tuple[SequenceCache, ...], record: Recorder) -> Step:
        positions, kernels, workspace = batch.positions, self.arithmetic.kernels, None
        window = rotation_at(positions, self.frequencies.window, self.arithmetic)
        yarn = rotation_at(positions, self.frequencies.yarn, self.arithmetic)
        if self.uses_workspace and kernels is not None and record is record_nothing:
            workspace = Workspace(self.config, kernels, [span.count for span in batch.spans], window, yarn)
        rows = self._engram_rows(batch, caches)
        return Step(batch, caches, positions, window, yarn, rows, record, workspace=workspace)

    def _engram_rows(self, batch: Batch, caches: tuple[SequenceCache, ...]) -> list[Int64[Tensor, "tokens columns"]]:
        """Row ids of every Engram layer. They depend on token ids only, so they are requested before layer 0 runs."""
        if self.addresses is None:
            return []
        layout = self.addresses.layout
        dead = None if batch.image_mask is None else batch.image_mask.numpy()
        compressed, seen = self.addresses.token_map.compress(batch.token_ids.numpy(), dead), []
        for span, cache in zip(batch.spans, caches, strict=True):
            seen.append(lookbacks(cache.history.ids, compressed[span.rows]))
            cache.history.extend(compressed[span.rows])
        row_ids = [torch.from_numpy(rows) for rows in self.addresses.rows(np.concatenate(seen))]
        for tables, rows_of_layer in zip(layout.layers, row_ids, strict=True):
            self.engram_rows.request(tables.layer_id, rows_of_layer.flatten().tolist())
        return row_ids

    def _embed(self, batch: Batch) -> BFloat16[Tensor, "tokens dim"]:
        embedded = self.weights.embed[batch.token_ids]
        if batch.image_mask is not None and batch.image_rows is not None:
            embedded[batch.image_mask] = batch.image_rows
        return embedded


def _mean_stream(streams: BFloat16[Tensor, "tokens streams dim"]) -> BFloat16[Tensor, "tokens dim"]:
    """The mean over streams, float32 ascending, rounded once (spec draft §2)."""
    return (ordered_sum(streams.float(), 1) / streams.shape[1]).to(streams.dtype)
