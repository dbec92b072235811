"""One layer: attention and mixture of experts between hyper-connections (spec §4.1)."""

from collections.abc import Sequence

from jaxtyping import BFloat16, Bool, Float32
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.attention import Attention
from shoal.model.engram import Engram
from shoal.model.moe import FEW_TOKENS, MoE, likeliest
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.routing import Routes
from shoal.ops.sublayer import Entered, EntryOptions, EntryWeights, enter_mixture, enter_sublayer


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
        self.arithmetic = arithmetic

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
        name, options, arithmetic = f"L{self.plan.layer_id}", self.options, self.arithmetic
        mask = None if self.plan.is_draft else step.batch.image_mask
        attn = enter_sublayer(streams, pre, self.attn_entry, options, arithmetic)
        step.record(f"{name}.attn_in", attn.x)
        self._guess_again(streams, attn, mask)
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

    def _guess_again(
        self, streams: BFloat16[Tensor, "tokens streams dim"], attn: Entered, mask: Bool[Tensor, "tokens"] | None
    ) -> None:
        """The experts of this layer are guessed once more, from all that its mixture starts from but attention's share.

        Attention takes long enough to read some, and this guess is right more often than the one of the layer before.
        """
        if streams.shape[0] > FEW_TOKENS:
            return

        def guess() -> Sequence[int]:
            router, options = self.moe.weights.router, self.options
            _, routes = enter_mixture(streams, attn.mix.pre, self.ffn_entry, router, mask, options, self.arithmetic)
            return likeliest(routes)

        self.moe.experts.expect(self.plan.layer_id, guess)

    def _record_routes(self, routes: Routes, step: Step) -> None:
        name = f"L{self.plan.layer_id}.router"
        step.record(f"{name}.indices", routes.expert_ids)
        step.record(f"{name}.weights", routes.weights)
        step.record(f"{name}.margin", routes.margin)
