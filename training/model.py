"""The backbone's forward pass on ordinary fast operators, to be trained (spec §4, §6).

Rows are whole sequences from position 0, padded at the end. Values are rounded wherever the release rounds them,
straight through; the indexer learns beside the model (`indexer.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from shoal.ops.rope import Yarn, rope_frequencies
from training import fake_quantize as fq
from training.attention import both_weights, near_weights, window_keys, window_mask
from training.indexer import Selection, attention_over, gently, index_layer, index_loss, weighed
from training.mixture import Dispatch, by_expert, route
from training.streams import Mix
from training.sublayers import (
    enter_attention,
    normed,
    remember,
    return_attention,
    return_mixture,
    rms_norm,
    rotate,
    routed_swiglu,
)
from training.weights import Weights, stored

Graph = Callable[..., Any]


@dataclass
class Output:
    """What enters the head, [tokens, dim], the indexers' loss, what each router chose, what entered each attention."""

    hidden: Tensor
    index_loss: Tensor
    dispatches: list[Dispatch]
    inputs: list[Tensor]


@dataclass(frozen=True)
class Graphs:
    """The stretches of a layer, compiled or as they are."""

    enter_attention: Graph
    return_attention: Graph
    routed_swiglu: Graph
    return_mixture: Graph
    remember: Graph
    near_weights: Graph
    both_weights: Graph
    weighed: Graph
    attention_over: Graph
    index_loss: Graph
    stored: Graph

    @classmethod
    def build(cls, compiled: bool) -> "Graphs":
        fixed = (enter_attention, return_attention, routed_swiglu, return_mixture, remember)
        varying = (near_weights, both_weights, weighed, attention_over, index_loss)
        if not compiled:
            return cls(*fixed, *varying, stored)
        return cls(*(torch.compile(part, dynamic=part in varying) for part in (*fixed, *varying, stored)))


class Miniature:
    """The model: weights, and the tables that depend on the configuration only."""

    def __init__(self, weights: Weights, compiled: bool) -> None:
        self.weights, self.config, self.graphs = weights, weights.config, Graphs.build(compiled)
        c = self.config
        yarn = Yarn(float(c.rope_factor), c.original_seq_len, float(c.beta_fast), float(c.beta_slow))
        self.window_frequencies = rope_frequencies(float(c.rope_theta), c.rope_head_dim, None)
        self.yarn_frequencies = rope_frequencies(float(c.compress_rope_theta), c.rope_head_dim, yarn)

    def forward(self, ids: Tensor, rows: list[Tensor], *, sparse: bool) -> Output:
        """`ids` int64 [rows, length], length a multiple of the window; `rows` the Engram rows [tokens, columns] of each
        table. Not `sparse`, every visible entry is read, selected or not."""
        return _Pass(self, ids, rows, sparse).run()

    def logits(self, hidden: Tensor) -> Tensor:
        """[tokens, vocabulary]."""
        return hidden @ fq.bfloat16(self.weights.get_parameter("head")).T


class _Pass:
    """One forward pass; tokens are end to end, [tokens, ...], streams first, [streams, tokens, dim]."""

    def __init__(self, model: Miniature, ids: Tensor, rows: list[Tensor], sparse: bool) -> None:
        self.config, self.graphs, self.ids, self.rows, self.sparse = model.config, model.graphs, ids, rows, sparse
        self.batch, self.length = ids.shape
        self.w: dict[str, Tensor] = model.graphs.stored(dict(model.weights.named_parameters()))
        self.layers: dict[str, tuple[Tensor, ...]] = {}
        self.bias = model.weights.gate_bias
        positions = torch.arange(self.length, dtype=torch.float32)[:, None]
        self.window_angles = self._cos_sin(positions * model.window_frequencies)
        self.yarn_angles = self._cos_sin(positions * model.yarn_frequencies)
        self.mask = window_mask(self.length // self.config.window_size, self.config.window_size)
        self.entries: Tensor | None = None
        self.index_keys: Tensor | None = None
        self.selections: list[Selection] = []  # that bind this layer, the newest last
        self.index_loss = torch.zeros(())
        self.dispatches: list[Dispatch] = []
        self.inputs: list[Tensor] = []

    def _cos_sin(self, angles: Tensor) -> tuple[Tensor, Tensor]:
        return angles.cos().repeat(self.batch, 1), angles.sin().repeat(self.batch, 1)

    def run(self) -> Output:
        c, w = self.config, self.w
        streams = functional.embedding(self.ids.flatten(), w["embed"]).expand(c.hc_mult, -1, -1).contiguous()
        pre = torch.zeros(c.hc_mult, streams.shape[1])
        pre[0] = 1.0
        pre.requires_grad_()  # as every later layer's: one graph serves all
        for layer in range(c.n_layers):
            if layer in c.engram_layer_ids:
                place = c.engram_layer_ids.index(layer)
                rows = functional.embedding(self.rows[place], w[f"table_{place}"]).flatten(1)
                parts = (w[f"engram_{name}"][place] for name in ("wkv", "q", "k"))
                streams = self.graphs.remember(streams, rows, *parts)
            streams, pre = self._layer(streams, pre, layer)
        return Output(normed(streams, pre, w["norm"]), self.index_loss, self.dispatches, self.inputs)

    def _layer(self, streams: Tensor, pre: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        c = self.config
        cos, sin = self.yarn_angles if c.compress_ratios[layer] else self.window_angles
        entered = self.graphs.enter_attention(
            *(streams, pre, cos, sin, self._hc("attn", layer), *self._of(layer, "attn_norm")),
            *(self._of(layer, "wq_a", "q_norm", "wq_b"), self._of(layer, "wkv", "kv_norm"), c.n_heads),
        )
        self.inputs.append(entered.x)
        if layer in c.kv_source_layers:
            self._compress(entered.x, c.compress_ratios[layer], c.kv_source_layers.index(layer))
        o = self._attend(entered.q, entered.kv, entered.x, entered.qr, layer)
        returned = self.graphs.return_attention(
            *(o, cos, sin, self._of(layer, "wo_a", "wo_b"), streams, Mix(*entered.mix), self._hc("ffn", layer)),
            *(*self._of(layer, "ffn_norm", "gate"), self._of(layer, "shared_w1", "shared_w3", "shared_w2"), c.o_groups),
        )
        dispatch = route(returned.scores, self.bias[layer], c)
        self.dispatches.append(dispatch)
        up = torch.cat(self._of(layer, "expert_w1", "expert_w3"), 1)
        both = by_expert(returned.x_q8[dispatch.order // c.n_activated_experts], up, dispatch.counts)
        gated = self.graphs.routed_swiglu(both, dispatch.weights)
        out = by_expert(gated, self._layers("expert_w2")[layer], dispatch.counts)
        streams = self.graphs.return_mixture(
            out, c.n_activated_experts, dispatch.back, returned.shared, returned.streams, Mix(*returned.mix)
        )
        return streams, returned.mix[0]

    def _hc(self, part: str, layer: int) -> tuple[Tensor, ...]:
        return self._of(layer, *(f"hc_{part}_{name}" for name in ("fn", "scale", "base")))

    def _of(self, layer: int, *names: str) -> tuple[Tensor, ...]:
        return tuple(self._layers(name)[layer] for name in names)

    def _layers(self, name: str) -> tuple[Tensor, ...]:
        """A stack's layers, taken apart once: each taken by itself would add a gradient of the whole stack."""
        if name not in self.layers:
            self.layers[name] = self.w[name].unbind(0)
        return self.layers[name]

    def _compress(self, x: Tensor, ratio: int, source: int) -> None:
        """Publish the layer's entries and index keys [rows, entries, dim] (spec §4.4)."""
        w = self.w
        k = x @ w["compressor_wkv"][source].T
        if ratio > 1:
            gate = (x @ w["compressor_wgate"][source].T).unflatten(0, (-1, ratio)).softmax(1)
            k = (k.unflatten(0, (-1, ratio)) * gate).sum(1)
        latents = fq.bfloat16(rms_norm(fq.bfloat16(k), w["compressor_norm"][source]))
        cos, sin = (part[::ratio] for part in self.yarn_angles)
        keys = fq.bfloat16(latents.detach() @ w["index_wk"][source].T)
        keys = fq.bfloat16(rms_norm(keys, w["index_k_norm"][source]))
        self.index_keys = fq.q4i(rotate(keys, cos, sin)).unflatten(0, (self.batch, -1))
        self.entries = fq.q4c(rotate(latents, cos, sin)).unflatten(0, (self.batch, -1))

    def _attend(self, q: Tensor, kv: Tensor, x: Tensor, qr: Tensor, layer: int) -> Tensor:
        """[tokens, heads, dim], not yet turned back."""
        c, size = self.config, self.config.window_size
        blocks, scale = self.length // size, self.config.head_dim**-0.5
        keys = window_keys(kv.unflatten(0, (self.batch, self.length)), size)
        q = q.view(self.batch, blocks, size, c.n_heads, -1).transpose(2, 3).reshape(self.batch, -1, c.head_dim)
        by_block = (self.batch, blocks, c.n_heads, size)
        near = (q.view(self.batch, blocks, -1, c.head_dim) @ keys.transpose(2, 3)).view(*by_block, -1)
        sink = self._of(layer, "attn_sink")[0][:, None, None]
        if not c.compress_ratios[layer]:
            p, total = self.graphs.near_weights(near, scale, self.mask, sink)
            o = p.flatten(2, 3) @ keys
        else:
            assert self.entries is not None
            far = (q @ self.entries.transpose(1, 2)).view(*by_block, -1)
            barred = self._barred(far, x, qr, layer).unflatten(1, (blocks, size))[:, :, None]
            p, p_far, total = self.graphs.both_weights(near, far, scale, self.mask, barred, sink)
            o = p.flatten(2, 3) @ keys + (p_far.flatten(1, 3) @ self.entries).unflatten(1, (blocks, -1))
        weighed: Tensor = o.view(*by_block, -1) / total
        return weighed.transpose(2, 3).reshape(-1, c.n_heads, c.head_dim)

    def _barred(self, far: Tensor, x: Tensor, qr: Tensor, layer: int) -> Tensor:
        """Whether each entry is out of sight, bool [rows, length, entries]; an index source first selects."""
        c = self.config
        visible = (torch.arange(self.length) + 1)[:, None] // c.compress_ratios[layer]
        hidden = torch.arange(far.shape[-1]) >= visible
        if layer in c.index_source_layers:
            self._select(x, qr, layer, hidden)
        target = self.graphs.attention_over(far.detach(), c.head_dim**-0.5, hidden)
        first = 2 * c.compress_ratios[layer] - 1  # the first to see two entries
        for selection in self.selections:
            seen = (part[..., first:, :] for part in (selection.scores, hidden, target))
            self.index_loss = self.index_loss + self.graphs.index_loss(*seen)
        return self.selections[-1].barred if self.sparse else hidden.expand(self.batch, -1, -1)

    def _select(self, x: Tensor, qr: Tensor, layer: int, hidden: Tensor) -> None:
        """An index source's choice; of the earlier ones the candidate source's still binds."""
        c = self.config
        assert self.index_keys is not None
        place = c.index_source_layers.index(layer)
        q = fq.bfloat16(gently(qr) @ self.w["index_wq_b"][place].T).unflatten(1, (c.index_n_heads, -1))
        q = fq.q4i(rotate(q, *self.yarn_angles)).unflatten(0, (self.batch, self.length))
        weights = (x.detach() @ self.w["index_weights"][place].T) * (c.index_n_heads * c.index_head_dim) ** -0.5
        weights = weights.unflatten(0, (self.batch, self.length))
        bound = [found for found in self.selections if found.candidates is not None]
        if layer in c.kv_source_layers:
            bound = []
        candidates = bound[-1].candidates if bound else None
        self.selections = [
            *bound,
            index_layer(q, self.index_keys, weights, hidden, layer, candidates, c, self.graphs.weighed),
        ]
