"""Wide arithmetic: every sum in float64 in a written order, rounded once; the judge of every kernel.

Products of two bf16, float32 or block-scaled values are exact in float64. A sum is a chain of halvings whose order
depends only on its length, made of elementwise additions, so a row's result cannot depend on its neighbours, chunks or
threads. exp and log1p are correctly rounded to float32 (but about once in 2^24); what stands around them is float32.
"""

import torch
from jaxtyping import BFloat16, Float, Float32, Float64, Int64
from torch import Tensor

from shoal.ops import elementary
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.quantize import Quantized, quantize_q8_torch
from shoal.ops.rounding import round_to_bfloat16, sqrt_float32
from shoal.ops.weights import BLOCK, BlockScaledWeight, Float8Weight, dequantize_weight

# Products held at once, 32 MiB of float64: enough to be quick, small enough for the third-level cache.
PRODUCTS_AT_ONCE = 1 << 22
SOFTPLUS_IDENTITY = 20.0


def halving_sum(terms: Float64[Tensor, "count *shape"]) -> Float64[Tensor, "*shape"]:
    """Σ over the first axis: the upper half is added to the lower until one is left. Overwrites `terms`."""
    count = terms.shape[0]
    if count == 0:
        return terms.new_zeros(terms.shape[1:])
    while count > 1:
        kept = (count + 1) // 2
        terms[: count - kept] += terms[kept:count]
        count = kept
    return terms[0]


def dot(x: Float[Tensor, "*#rows inputs"], y: Float[Tensor, "*#rows inputs"]) -> Float64[Tensor, "*#rows"]:
    """Σ x·y over the last axis of broadcast operands, as a halving sum of exact products."""
    # The summed axis first and contiguous: each halving then adds two solid slabs.
    return halving_sum(x.double().movedim(-1, 0).contiguous() * y.double().movedim(-1, 0).contiguous())


class Wide(Arithmetic):
    """The arithmetic Shoal's own results are judged by."""

    name = "wide"

    def quantize_q8(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        return quantize_q8_torch(x)

    def quantized_linear(self, x: Quantized, weight: BlockScaledWeight) -> BFloat16[Tensor, "tokens outputs"]:
        # A block's 32 products and their sums are multiples of 2^-18 below 2^23: exact whatever the order, so
        # a matrix product may compute them. Blocks are then added in a written order.
        codes = x.code_values().double().unflatten(-1, (-1, BLOCK)).movedim(-2, 0)
        scales = x.format.decode_scales(x.scales).double().t()[:, :, None]
        weights = weight.code_values().double().unflatten(-1, (-1, BLOCK)).movedim(-2, 0).transpose(1, 2)
        weight_scales = weight.row_scales().t()[:, None, :]
        rows = max(1, PRODUCTS_AT_ONCE // max(1, weights.shape[0] * weights.shape[2]))
        parts = [
            halving_sum(torch.bmm(codes[:, i : i + rows], weights) * scales[:, i : i + rows] * weight_scales)
            for i in range(0, codes.shape[1], rows)
        ]
        return round_to_bfloat16(torch.cat(parts)) if parts else self._no_rows(weights.shape[2], torch.bfloat16)

    def linear_bfloat16(
        self, x: BFloat16[Tensor, "tokens inputs"], weight: BFloat16[Tensor, "outputs inputs"]
    ) -> BFloat16[Tensor, "tokens outputs"]:
        return round_to_bfloat16(self._linear(x, weight))

    def linear_float32(
        self, x: Float[Tensor, "tokens inputs"], weight: Float[Tensor, "outputs inputs"]
    ) -> Float32[Tensor, "tokens outputs"]:
        return self._linear(x, weight).float()

    def head(
        self, x: BFloat16[Tensor, "tokens inputs"], weight: BFloat16[Tensor, "outputs inputs"]
    ) -> Float32[Tensor, "tokens outputs"]:
        return self.linear_float32(x, weight)

    def grouped_linear(
        self, x: BFloat16[Tensor, "tokens groups inputs"], weight: Float8Weight
    ) -> BFloat16[Tensor, "tokens groups outputs"]:
        expanded = dequantize_weight(weight).unflatten(0, (x.shape[1], -1))
        parts = [self.linear_bfloat16(x[:, group], expanded[group]) for group in range(x.shape[1])]
        return torch.stack(parts, dim=1)

    def attention_scores(
        self, q: BFloat16[Tensor, "tokens heads dim"], keys: BFloat16[Tensor, "tokens columns dim"]
    ) -> Float32[Tensor, "tokens heads columns"]:
        return self._batched_dot(q, keys).float()

    def weighted_values(
        self, p: BFloat16[Tensor, "tokens heads columns"], values: BFloat16[Tensor, "tokens columns dim"]
    ) -> Float64[Tensor, "tokens heads dim"]:
        return self._batched_dot(p, values.transpose(1, 2))

    def index_products(
        self, q: BFloat16[Tensor, "tokens heads dim"], keys: BFloat16[Tensor, "positions dim"]
    ) -> BFloat16[Tensor, "tokens heads positions"]:
        return torch.unflatten(self.linear_bfloat16(q.flatten(0, 1), keys), 0, q.shape[:2])

    def total(self, x: Float32[Tensor, "*rows columns"]) -> Float64[Tensor, "*rows"]:
        return halving_sum(x.double().movedim(-1, 0).clone())

    def mean_square(self, x: Float32[Tensor, "*rows columns"]) -> Float32[Tensor, "*rows 1"]:
        return (dot(x, x) / x.shape[-1]).float()[..., None]

    def rsqrt(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return 1.0 / sqrt_float32(x)

    def sqrt(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return sqrt_float32(x)

    def exp(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return elementary.exp(x.double()).float()

    def sigmoid(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return 1.0 / (1.0 + self.exp(-x))

    def silu(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        return x / (1.0 + self.exp(-x))

    def softplus(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        below = elementary.log1p(self.exp(x.clamp_max(SOFTPLUS_IDENTITY)).double()).float()
        return torch.where(x > SOFTPLUS_IDENTITY, x, below)

    def group_softmax(self, x: Float32[Tensor, "groups ratio dim"]) -> Float32[Tensor, "groups ratio dim"]:
        weights = self.exp(x - x.amax(dim=1, keepdim=True))
        total = weights[:, :1]
        for member in range(1, x.shape[1]):
            total = total + weights[:, member : member + 1]
        return weights / total

    def cos_sin(self, angle: Float32[Tensor, "*shape"]) -> tuple[Float32[Tensor, "*shape"], Float32[Tensor, "*shape"]]:
        sine, cosine = elementary.sin_cos(angle.double())
        return cosine.float(), sine.float()

    def top_indices(self, scores: Float[Tensor, "rows columns"], count: int) -> Int64[Tensor, "rows count"]:
        # A stable sort leaves the lower position first among equals.
        return torch.sort(scores, dim=-1, descending=True, stable=True).indices[:, :count]

    def _linear(
        self, x: Float[Tensor, "tokens inputs"], weight: Float[Tensor, "outputs inputs"]
    ) -> Float64[Tensor, "tokens outputs"]:
        rows = max(1, PRODUCTS_AT_ONCE // max(1, weight.numel()))
        parts = [dot(x[i : i + rows, None], weight[None]) for i in range(0, x.shape[0], rows)]
        return torch.cat(parts) if parts else self._no_rows(weight.shape[0], torch.float64)

    def _batched_dot(
        self, a: Float[Tensor, "tokens heads inputs"], b: Float[Tensor, "tokens outputs inputs"]
    ) -> Float64[Tensor, "tokens heads outputs"]:
        rows = max(1, PRODUCTS_AT_ONCE // max(1, a.shape[1] * b.shape[1] * a.shape[2]))
        pieces = range(0, a.shape[0], rows)
        return torch.cat([dot(a[i : i + rows, :, None], b[i : i + rows, None]) for i in pieces])

    def _no_rows(self, outputs: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros((0, outputs), dtype=dtype)
