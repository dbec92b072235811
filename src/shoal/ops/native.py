"""Native arithmetic: the C++ kernels. Dense products add in float32 lanes; everything else has the bits of wide."""

import torch
from jaxtyping import BFloat16, Float, Float32, Float64
from torch import Tensor

from shoal.ops.kernels import EXP, SIGMOID, SILU, SOFTPLUS, Kernels
from shoal.ops.quantize import Quantized
from shoal.ops.weights import BlockScaledWeight, Float8Weight
from shoal.ops.wide import Wide


class Native(Wide):
    """Wide arithmetic on the kernels of one instruction set, the best there is unless named."""

    name = "native"

    def __init__(self, isa: str | None = None, threads: int = 1) -> None:
        self.native = self.kernels = Kernels(isa, threads)

    def quantize_q8(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        return self.native.quantize_q8(x)

    def quantized_linear(self, x: Quantized, weight: BlockScaledWeight) -> BFloat16[Tensor, "tokens outputs"]:
        if isinstance(weight, Float8Weight):
            return self.native.float8_linear(x, weight)
        return self.native.block_linear(x, weight)

    def linear_bfloat16(
        self, x: BFloat16[Tensor, "tokens inputs"], weight: BFloat16[Tensor, "outputs inputs"]
    ) -> BFloat16[Tensor, "tokens outputs"]:
        return self.native.bf16_linear(x, weight)

    def linear_float32(
        self, x: Float[Tensor, "tokens inputs"], weight: Float[Tensor, "outputs inputs"]
    ) -> Float32[Tensor, "tokens outputs"]:
        if x.dtype == weight.dtype == torch.bfloat16:
            return self.native.bf16_linear(x, weight, torch.float32)
        if x.dtype == torch.bfloat16 and weight.dtype == torch.float32:
            return self.native.float32_linear(x, weight)[0]
        return super().linear_float32(x, weight)

    def grouped_linear(
        self, x: BFloat16[Tensor, "tokens groups inputs"], weight: Float8Weight
    ) -> BFloat16[Tensor, "tokens groups outputs"]:
        return self.native.grouped_linear(x, weight)

    def index_products(
        self, q: BFloat16[Tensor, "tokens heads dim"], keys: BFloat16[Tensor, "positions dim"]
    ) -> BFloat16[Tensor, "tokens heads positions"]:
        # Selections are those of wide.
        return torch.unflatten(super().linear_bfloat16(q.flatten(0, 1), keys), 0, q.shape[:2])

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
