"""Native arithmetic: wide, computed by the C++ kernels, bit for bit."""

from jaxtyping import BFloat16, Float, Float32, Float64
from torch import Tensor

from shoal.ops.kernels import EXP, SIGMOID, SILU, SOFTPLUS, Kernels
from shoal.ops.quantize import Quantized
from shoal.ops.weights import BlockScaledWeight
from shoal.ops.wide import Wide


class Native(Wide):
    """Wide arithmetic on the kernels of one instruction set, the best there is unless named."""

    name = "native"

    def __init__(self, isa: str | None = None, threads: int = 1) -> None:
        self.native = self.kernels = Kernels(isa, threads)

    def quantize_q8(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        return self.native.quantize_q8(x)

    def quantized_linear(self, x: Quantized, weight: BlockScaledWeight) -> BFloat16[Tensor, "tokens outputs"]:
        return self.native.block_linear(x, weight)

    def exp(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return self.native.elementary(EXP, x)

    def sigmoid(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return self.native.elementary(SIGMOID, x)

    def silu(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return self.native.elementary(SILU, x)

    def softplus(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return self.native.elementary(SOFTPLUS, x)

    def _linear(
        self, x: Float[Tensor, "tokens inputs"], weight: Float[Tensor, "outputs inputs"]
    ) -> Float64[Tensor, "tokens outputs"]:
        return self.native.halving_dots(x[None], weight[None])[0]

    def _batched_dot(
        self, a: Float[Tensor, "tokens heads inputs"], b: Float[Tensor, "tokens outputs inputs"]
    ) -> Float64[Tensor, "tokens heads outputs"]:
        return self.native.halving_dots(a, b)
