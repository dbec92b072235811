"""One layer: attention and mixture of experts between hyper-connections (spec §4.1)."""

from dataclasses import dataclass

from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.attention import Attention
from shoal.model.engram import Engram
from shoal.model.hyper_connections import HyperConnection
from shoal.model.moe import MoE
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.hyper_connections import collapse, expand
from shoal.ops.rms_norm import rms_norm


@dataclass(frozen=True)
class LayerNorms:
    """The norms of both sublayers' inputs."""

    attn: BFloat16[Tensor, "dim"]
    ffn: BFloat16[Tensor, "dim"]


class Layer:
    """The mixes are single-pass: each sublayer's input is collapsed with the `pre` of the sublayer before it."""

    def __init__(
        self,
        norms: LayerNorms,
        attn_hc: HyperConnection,
        ffn_hc: HyperConnection,
        attention: Attention,
        moe: MoE,
        engram: Engram | None,
        plan: LayerPlan,
        config: ModelConfig,
        arithmetic: Arithmetic,
    ) -> None:
        self.norms, self.attn_hc, self.ffn_hc = norms, attn_hc, ffn_hc
        self.attention, self.moe, self.engram, self.plan = attention, moe, engram, plan
        self.eps, self.arithmetic = float(config.norm_eps), arithmetic

    def forward(
        self, streams: BFloat16[Tensor, "tokens streams dim"], pre: Float32[Tensor, "tokens streams"], step: Step
    ) -> tuple[BFloat16[Tensor, "tokens streams dim"], Float32[Tensor, "tokens streams"]]:
        """The streams after the layer, and the `pre` that the next layer collapses with."""
        name = f"L{self.plan.layer_id}"
        attn_mix = self.attn_hc.mix(streams)
        x = rms_norm(collapse(streams, pre), self.norms.attn, self.eps, self.arithmetic)
        step.record(f"{name}.attn_in", x)
        x = self.attention.forward(x, step)
        step.record(f"{name}.attn_out", x)
        streams = expand(x, streams, attn_mix)

        ffn_mix = self.ffn_hc.mix(streams)
        x = rms_norm(collapse(streams, attn_mix.pre), self.norms.ffn, self.eps, self.arithmetic)
        step.record(f"{name}.ffn_in", x)
        x = self.moe.forward(x, step)
        step.record(f"{name}.ffn_out", x)
        streams = expand(x, streams, ffn_mix)
        step.record(f"{name}.stream_out", streams)
        step.record(f"{name}.pre_mix_out", ffn_mix.pre)
        return streams, ffn_mix.pre
