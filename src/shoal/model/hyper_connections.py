"""The residual streams around one sublayer (spec §4.1)."""

from dataclasses import dataclass

from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.config.schema import ModelConfig
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.hyper_connections import Mix, mix_coefficients, split_mix


@dataclass(frozen=True)
class HyperConnectionWeights:
    """The mix projection of one sublayer, in float32."""

    fn: Float32[Tensor, "coefficients inputs"]
    base: Float32[Tensor, "coefficients"]
    scale: Float32[Tensor, "3"]


class HyperConnection:
    """Computes a sublayer's mix from the streams that enter it."""

    def __init__(self, weights: HyperConnectionWeights, config: ModelConfig, arithmetic: Arithmetic) -> None:
        self.weights, self.config, self.arithmetic = weights, config, arithmetic

    def mix(self, streams: BFloat16[Tensor, "tokens streams dim"]) -> Mix:
        """The sublayer's pre, post and comb; its `pre` collapses the next sublayer's input, not its own."""
        c, w = self.config, self.weights
        u = mix_coefficients(streams, w.fn, float(c.norm_eps), self.arithmetic)
        return split_mix(u, w.scale, w.base, c.hc_mult, c.hc_sinkhorn_iters, float(c.hc_eps), self.arithmetic)
