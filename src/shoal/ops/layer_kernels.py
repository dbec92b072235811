"""A layer of a step in three native calls: to its keys, to its experts, and to its end (spec §4.1).

They have the bits of the operators they are made of. Where weights are is said once a layer, the memory that layers
work in is made once a step: between two kernels of a decoded token stands as little as can be.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Bool, Float32
from torch import Tensor

import shoal._native as native
from shoal.config.schema import ModelConfig
from shoal.ops.addresses import address, empty_quantized, float8_addresses, quantized_addresses
from shoal.ops.attention_projections import InputProjections, OutputProjections
from shoal.ops.kernels import Kernels
from shoal.ops.mixture import ExpertWeights
from shoal.ops.quantize import Q8
from shoal.ops.rotation import Rotation
from shoal.ops.routing import Router
from shoal.ops.step_attention import ReplacedOfLayers, score_scale
from shoal.ops.sublayer import EntryWeights
from shoal.ops.weights import Float8Weight

Arrived = Sequence[tuple[int, ExpertWeights]]


class Workspace:
    """What the layers of a step of sequences of `counts` tokens work in, one after another.

    Python reads of it what is named here: `streams` and `pre` are what a layer starts from, and what it leaves;
    `next_pre`, x and qr are of the sublayer at hand.
    """

    def __init__(
        self, config: ModelConfig, kernels: Kernels, counts: Sequence[int], window: Rotation, yarn: Rotation
    ) -> None:
        c, self.kernels = config, kernels
        self.tokens = tokens = sum(counts)
        kept = sum(min(count, c.window_size) for count in counts)
        self.replaced = ReplacedOfLayers(c.n_layers, kept, c.head_dim)
        self.streams, returned = (torch.empty((tokens, c.hc_mult, c.dim), dtype=torch.bfloat16) for _ in range(2))
        self.pre, self.next_pre, post = (torch.empty((tokens, c.hc_mult)) for _ in range(3))
        self.x, y = (torch.empty((tokens, c.dim), dtype=torch.bfloat16) for _ in range(2))
        self.qr = empty_quantized(Q8, tokens, c.q_lora_rank)
        x_q8, kv = empty_quantized(Q8, tokens, c.dim), empty_quantized(Q8, tokens, c.head_dim)
        comb = torch.empty((tokens, c.hc_mult, c.hc_mult))
        heads, outputs = c.n_heads * c.head_dim, c.n_activated_experts * c.dim
        # Attention has ended before the first expert is applied.
        q = torch.empty(tokens * max(heads, outputs), dtype=torch.bfloat16)
        o = torch.empty(tokens * heads, dtype=torch.bfloat16)
        expert_ids = torch.empty((tokens, c.n_activated_experts), dtype=torch.int64)
        weights, margin = torch.empty(expert_ids.shape), torch.empty(tokens)
        self.angles = tuple((address(kind.cos), address(kind.sin)) for kind in (window, yarn))  # by `uses_yarn`
        self._kept = (returned, post, y, x_q8, kv, comb, q, o, expert_ids, weights, margin, window, yarn)
        self.native = native.Workspace(
            tokens=tokens,
            streams=address(self.streams),
            returned=address(returned),
            pre=address(self.pre),
            next_pre=address(self.next_pre),
            x=address(self.x),
            x_q8=quantized_addresses(x_q8),
            post=address(post),
            comb=address(comb),
            q=address(q),
            qr=quantized_addresses(self.qr),
            kv=quantized_addresses(kv),
            o=address(o),
            y=address(y),
            outputs=address(q),
            expert_ids=address(expert_ids),
            weights=address(weights),
            margin=address(margin),
        )

    def take(self, streams: BFloat16[Tensor, "tokens streams dim"], pre: Float32[Tensor, "tokens streams"]) -> None:
        """A layer shall start from these."""
        if streams is not self.streams:
            self.streams.copy_(streams)
        if pre is not self.pre:
            self.pre.copy_(pre)


@dataclass(frozen=True)
class LayerWeights:
    """All that a layer's three calls read, but for its routed experts."""

    attn_entry: EntryWeights
    ffn_entry: EntryWeights
    input: InputProjections
    output: OutputProjections
    sink: Float32[Tensor, "heads"]
    router: Router
    shared: ExpertWeights


class LayerStages:
    """The three calls of one layer."""

    def __init__(self, weights: LayerWeights, config: ModelConfig, uses_yarn: bool) -> None:
        self.weights, self.uses_yarn = weights, uses_yarn  # `native` has the weights' addresses
        c, w, w1 = config, weights, weights.shared.w1
        assert w.router.active == c.n_activated_experts, (w.router.active, c.n_activated_experts)
        self.native = native.LayerStages(
            num_streams=c.hc_mult,
            dim=c.dim,
            iterations=c.hc_sinkhorn_iters,
            hc_eps=float(c.hc_eps),
            norm_eps=float(c.norm_eps),
            q_rank=c.q_lora_rank,
            heads=c.n_heads,
            head_dim=c.head_dim,
            pairs=c.rope_head_dim // 2,
            window=c.window_size,
            groups=w.output.groups,
            group_inputs=w.output.wo_a.codes.shape[1],
            group_outputs=w.output.wo_a.codes.shape[0] // w.output.groups,
            score_scale=score_scale(c.head_dim),
            experts=w.router.gate.shape[0],
            active=w.router.active,
            inter=w1.codes.shape[0],
            route_scale=w.router.scale,
            limit=float(c.swiglu_limit),
            attn=_entry(w.attn_entry),
            ffn=_entry(w.ffn_entry),
            **{name: float8_addresses(getattr(w.input, name)) for name in ("wq_a", "wq_b", "wkv")},
            **{name: float8_addresses(getattr(w.output, name)) for name in ("wo_a", "wo_b")},
            **{name: float8_addresses(_float8(getattr(w.shared, name))) for name in ("w1", "w2", "w3")},
            q_norm=address(w.input.q_norm),
            kv_norm=address(w.input.kv_norm),
            gate=address(w.router.gate),
            sink=address(w.sink),
            bias=address(w.router.bias),
            bias_vl=address(w.router.bias_vl),
        )

    def begin(self, workspace: Workspace) -> None:
        """Attention's input, queries and own keys: `enter_sublayer` and `project_in`."""
        self.native.begin(workspace.kernels.native, workspace.native, *workspace.angles[self.uses_yarn])

    def attend(
        self,
        workspace: Workspace,
        sequences: list[tuple[int, ...]],
        topk: int,
        replaced: tuple[int, int, int],
        image_mask: Bool[Tensor, "tokens"] | None,
    ) -> tuple[int, ...]:
        """The experts that the step's tokens go to, ascending: `attend_step`, `project_out` and `enter_mixture`."""
        kernels, angles, mask = workspace.kernels.native, workspace.angles[self.uses_yarn], address(image_mask)
        return tuple(self.native.attend(kernels, workspace.native, sequences, topk, *angles, *replaced, mask))

    def apply(self, workspace: Workspace, arrived: Arrived) -> None:
        """Some of the experts, but not the last of them: `apply_routed`."""
        self.native.apply(workspace.kernels.native, workspace.native, _addresses(arrived))

    def finish(self, workspace: Workspace, last: Arrived) -> None:
        """The experts that are left, and the layer's streams: `combine`."""
        self.native.finish(workspace.kernels.native, workspace.native, _addresses(last))


def _addresses(arrived: Arrived) -> list[tuple[int, tuple[int, ...]]]:
    return [(expert_id, weights.addresses) for expert_id, weights in arrived]


def _entry(entry: EntryWeights) -> tuple[int, ...]:
    return tuple(map(address, (entry.fn, entry.scale, entry.base, entry.norm)))


def _float8(weight: object) -> Float8Weight:
    assert isinstance(weight, Float8Weight), type(weight)
    return weight
