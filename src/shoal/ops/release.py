"""Release arithmetic: the released code's own torch calls, in its places and order (spec §10).

Bit-identical to the goldens on a CPU whose MKL and oneDNN use AVX-512, and not invariant: MKL's float32 products
depend on the number of rows, and torch's elementary functions change in a row's last elements.
"""

import torch
import torch.nn.functional as F
from jaxtyping import BFloat16, Float, Float32, Int64
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.quantize import Quantized, quantize_q8_torch
from shoal.ops.weights import BlockScaledWeight, Float8Weight, dequantize_weight


class Release(Arithmetic):
    """The arithmetic the goldens were recorded with."""

    name = "release"

    def quantize_q8(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        return quantize_q8_torch(x)

    def quantized_linear(self, x: Quantized, weight: BlockScaledWeight) -> BFloat16[Tensor, "tokens outputs"]:
        return F.linear(x.dequantize().float(), dequantize_weight(weight).float()).to(torch.bfloat16)

    def linear_bfloat16(
        self, x: BFloat16[Tensor, "tokens inputs"], weight: BFloat16[Tensor, "outputs inputs"]
    ) -> BFloat16[Tensor, "tokens outputs"]:
        return F.linear(x, weight)

    def linear_float32(
        self, x: Float[Tensor, "tokens inputs"], weight: Float[Tensor, "outputs inputs"]
    ) -> Float32[Tensor, "tokens outputs"]:
        return F.linear(x.float(), weight.float())

    def head(
        self, x: BFloat16[Tensor, "tokens inputs"], weight: BFloat16[Tensor, "outputs inputs"]
    ) -> Float32[Tensor, "tokens outputs"]:
        # The released code computes the last row alone; a product of several rows has other bits.
        rows = [F.linear(row.float()[None], weight.float()) for row in x]
        return torch.cat(rows) if rows else x.new_zeros((0, weight.shape[0]), dtype=torch.float32)

    def grouped_linear(
        self, x: BFloat16[Tensor, "tokens groups inputs"], weight: Float8Weight
    ) -> BFloat16[Tensor, "tokens groups outputs"]:
        expanded = dequantize_weight(weight).unflatten(0, (x.shape[1], -1))
        return torch.einsum("bsgd,grd->bsgr", x[None], expanded)[0]

    def attention_scores(
        self, q: BFloat16[Tensor, "tokens heads dim"], keys: BFloat16[Tensor, "tokens columns dim"]
    ) -> Float32[Tensor, "tokens heads columns"]:
        return torch.matmul(q.float(), keys.float().transpose(1, 2))

    def weighted_values(
        self, p: BFloat16[Tensor, "tokens heads columns"], values: BFloat16[Tensor, "tokens columns dim"]
    ) -> Float32[Tensor, "tokens heads dim"]:
        return torch.matmul(p.float(), values.float())

    def index_products(
        self, q: BFloat16[Tensor, "tokens heads dim"], keys: BFloat16[Tensor, "positions dim"]
    ) -> BFloat16[Tensor, "tokens heads positions"]:
        return torch.einsum("bshd,btd->bsht", q[None], keys[None])[0]

    def total(self, x: Float32[Tensor, "*rows columns"]) -> Float32[Tensor, "*rows"]:
        return x.sum(-1)

    def mean_square(self, x: Float32[Tensor, "*rows columns"]) -> Float32[Tensor, "*rows 1"]:
        return x.square().mean(-1, keepdim=True)

    def rsqrt(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return torch.rsqrt(x)

    def sqrt(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return torch.sqrt(x)

    def exp(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return torch.exp(x)

    def sigmoid(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return torch.sigmoid(x)

    def silu(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return F.silu(x)

    def softplus(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return F.softplus(x)

    def group_softmax(self, x: Float32[Tensor, "groups ratio dim"]) -> Float32[Tensor, "groups ratio dim"]:
        return x.softmax(dim=1)

    def cos_sin(self, angle: Float32[Tensor, "*shape"]) -> tuple[Float32[Tensor, "*shape"], Float32[Tensor, "*shape"]]:
        unit = torch.polar(torch.ones_like(angle), angle)
        return unit.real, unit.imag

    def top_indices(self, scores: Float[Tensor, "rows columns"], count: int) -> Int64[Tensor, "rows count"]:
        return scores.topk(count, dim=-1).indices
