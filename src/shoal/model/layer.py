"""One layer: attention and mixture of experts between hyper-connections (spec §4.1)."""

from collections.abc import Sequence
from functools import cached_property

from jaxtyping import BFloat16, Bool, Float32
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.attention import Attention
from shoal.model.engram import Engram
from shoal.model.moe import FEW_TOKENS, MoE, likeliest
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.layer_kernels import LayerStages, LayerWeights, Workspace
from shoal.ops.routing import Routes
from shoal.ops.sublayer import EntryOptions, EntryWeights, enter_mixture, enter_sublayer


class Layer:
    """The mixes are single-pass: each sublayer's input is collapsed with the `pre` of the sublayer before it."""

    def __init__(
        self,
        attn_entry: EntryWeights,
        ffn_entry: EntryWeights,
        attention: Attention,
        moe: MoE,
        engram: Engram | None,
        plan: LayerPlan,
        config: ModelConfig,
        arithmetic: Arithmetic,
    ) -> None:
        self.attn_entry, self.ffn_entry = attn_entry, ffn_entry
        self.attention, self.moe, self.engram, self.plan = attention, moe, engram, plan
        self.options = EntryOptions(config.hc_sinkhorn_iters, float(config.hc_eps), float(config.norm_eps))
        self.config, self.arithmetic = config, arithmetic

    def forward(
        self,
        streams: BFloat16[Tensor, "tokens streams dim"],
        pre: Float32[Tensor, "tokens streams"],
        step: Step,
        following: "Layer | None" = None,
    ) -> tuple[BFloat16[Tensor, "tokens streams dim"], Float32[Tensor, "tokens streams"]]:
        """The streams after the layer, and the `pre` that the next layer collapses with.

        The layer `following` changes neither: its experts are guessed from what this one's mixture starts from.
        """
        if step.workspace is not None:
            return self._forward_in_workspace(streams, pre, step, step.workspace, following)
        name, options, arithmetic = f"L{self.plan.layer_id}", self.options, self.arithmetic
        mask = None if self.plan.is_draft else step.batch.image_mask
        attn = enter_sublayer(streams, pre, self.attn_entry, options, arithmetic)
        step.record(f"{name}.attn_in", attn.x)
        self._guess_again(streams, attn.mix.pre, mask)
        x, streams = self.attention.forward(attn, streams, step)
        step.record(f"{name}.attn_out", x)

        router = self.moe.weights.router
        ffn, routes = enter_mixture(streams, attn.mix.pre, self.ffn_entry, router, mask, options, arithmetic)
        step.record(f"{name}.ffn_in", ffn.x)
        self._record_routes(routes, step)
        x, streams = self.moe.forward(ffn, routes, streams, None if following is None else following.moe, mask)
        step.record(f"{name}.ffn_out", x)
        step.record(f"{name}.stream_out", streams)
        step.record(f"{name}.pre_mix_out", ffn.mix.pre)
        return streams, ffn.mix.pre

    def _forward_in_workspace(
        self,
        streams: BFloat16[Tensor, "tokens streams dim"],
        pre: Float32[Tensor, "tokens streams"],
        step: Step,
        workspace: Workspace,
        following: "Layer | None",
    ) -> tuple[BFloat16[Tensor, "tokens streams dim"], Float32[Tensor, "tokens streams"]]:
        """`forward` in three native calls, and those of compressor and indexer; what it returns lies there."""
        mask = None if self.plan.is_draft else step.batch.image_mask
        workspace.take(streams, pre)
        self.stages.begin(workspace)
        self._guess_again(workspace.streams, workspace.next_pre, mask)
        self.attention.index(workspace.x, workspace.qr, step)
        sequences, topk = self.attention.expect(step, workspace)
        replaced = workspace.replaced.addresses(self.plan.layer_id)
        expert_ids = self.stages.attend(workspace, sequences, topk, replaced, mask)
        moe = None if following is None else following.moe
        self.moe.forward_in_workspace(self.stages, workspace, expert_ids, moe, mask)
        return workspace.streams, workspace.pre

    @cached_property
    def stages(self) -> LayerStages:
        """The layer's native calls, which know where its weights are from the first time on."""
        return stages_of(self)

    def _guess_again(
        self,
        streams: BFloat16[Tensor, "tokens streams dim"],
        pre: Float32[Tensor, "tokens streams"],
        mask: Bool[Tensor, "tokens"] | None,
    ) -> None:
        """The experts of this layer are guessed once more, from all that its mixture starts from but attention's share.

        Attention takes long enough to read some, and this guess is right more often than the one of the layer before.
        """
        if streams.shape[0] > FEW_TOKENS:
            return

        def guess() -> Sequence[int]:
            router, options = self.moe.weights.router, self.options
            _, routes = enter_mixture(streams, pre, self.ffn_entry, router, mask, options, self.arithmetic)
            return likeliest(routes)

        self.moe.experts.expect(self.plan.layer_id, guess)

    def _record_routes(self, routes: Routes, step: Step) -> None:
        name = f"L{self.plan.layer_id}.router"
        step.record(f"{name}.indices", routes.expert_ids)
        step.record(f"{name}.weights", routes.weights)
        step.record(f"{name}.margin", routes.margin)


def stages_of(layer: Layer) -> LayerStages:
    """The native calls of a layer with the weights that it has now."""
    attention, moe = layer.attention.weights, layer.moe.weights
    weights = LayerWeights(
        *(layer.attn_entry, layer.ffn_entry, attention.input, attention.output, attention.sink, moe.router, moe.shared)
    )
    return LayerStages(weights, layer.config, layer.plan.uses_yarn)
