"""What an arithmetic must offer; operators take one as an argument and never ask which it is.

`release` repeats the released code's torch calls and meets its goldens bit for bit, but its sums depend on the number
of rows. `wide` sums in float64 in a written order and rounds once: the same bits for any batch, chunk or thread count.
`native` is wide with the C++ kernels there are (DESIGN: every operator exists twice).
"""

from abc import ABC, abstractmethod

from jaxtyping import BFloat16, Float, Float32, Int64
from torch import Tensor

from shoal.ops.kernels import Kernels
from shoal.ops.quantize import Quantized, quantize_q4c, quantize_q4i
from shoal.ops.weights import BlockScaledWeight, Float8Weight


class Arithmetic(ABC):
    """The linear products, elementary functions and selection of one arithmetic."""

    name: str
    # Where there are kernels for whole operators, an operator takes them.
    kernels: Kernels | None = None

    @abstractmethod
    def quantize_q8(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        """The Q8 activation quantiser (spec §3.1)."""

    def quantize_q4i(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        """The Q4i quantiser of index queries and keys (spec §3.1)."""
        return quantize_q4i(x) if self.kernels is None else self.kernels.quantize_q4i(x)

    def quantize_q4c(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        """The Q4c quantiser of compressed KV (spec §3.1)."""
        return quantize_q4c(x) if self.kernels is None else self.kernels.quantize_q4c(x)

    @abstractmethod
    def quantized_linear(self, x: Quantized, weight: BlockScaledWeight) -> BFloat16[Tensor, "tokens outputs"]:
        """x·Wᵀ of a Q8 input and an FP8 or FP4 weight, rounded once to bf16 (spec §3.2)."""

    @abstractmethod
    def linear_bfloat16(
        self, x: BFloat16[Tensor, "tokens inputs"], weight: BFloat16[Tensor, "outputs inputs"]
    ) -> BFloat16[Tensor, "tokens outputs"]:
        """x·Wᵀ of bf16, rounded to bf16."""

    @abstractmethod
    def linear_float32(
        self, x: Float[Tensor, "tokens inputs"], weight: Float[Tensor, "outputs inputs"]
    ) -> Float32[Tensor, "tokens outputs"]:
        """x·Wᵀ of inputs widened to float32, rounded to float32."""

    @abstractmethod
    def head(
        self, x: BFloat16[Tensor, "tokens inputs"], weight: BFloat16[Tensor, "outputs inputs"]
    ) -> Float32[Tensor, "tokens outputs"]:
        """The output head: `linear_float32`, every row as if it were alone."""

    @abstractmethod
    def grouped_linear(
        self, x: BFloat16[Tensor, "tokens groups inputs"], weight: Float8Weight
    ) -> BFloat16[Tensor, "tokens groups outputs"]:
        """One bf16 product a group, rounded to bf16 (spec §4.2 step 7); the weight holds group after group."""

    @abstractmethod
    def attention_scores(
        self, q: BFloat16[Tensor, "tokens heads dim"], keys: BFloat16[Tensor, "tokens columns dim"]
    ) -> Float32[Tensor, "tokens heads columns"]:
        """q·k of every head with every key of its token, rounded to float32."""

    @abstractmethod
    def weighted_values(
        self, p: BFloat16[Tensor, "tokens heads columns"], values: BFloat16[Tensor, "tokens columns dim"]
    ) -> Float[Tensor, "tokens heads dim"]:
        """Σ p·v over a block of columns, in the arithmetic's accumulator."""

    @abstractmethod
    def index_products(
        self, q: BFloat16[Tensor, "tokens heads dim"], keys: BFloat16[Tensor, "positions dim"]
    ) -> BFloat16[Tensor, "tokens heads positions"]:
        """Indexer dot products, rounded to bf16 (spec §4.5)."""

    @abstractmethod
    def total(self, x: Float32[Tensor, "*rows columns"]) -> Float[Tensor, "*rows"]:
        """Σ over the last axis, in the arithmetic's accumulator."""

    @abstractmethod
    def mean_square(self, x: Float32[Tensor, "*rows columns"]) -> Float32[Tensor, "*rows 1"]:
        """Mean of x² over the last axis, float32."""

    @abstractmethod
    def rsqrt(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        """1/√x, both roundings float32."""

    @abstractmethod
    def sqrt(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        """√x."""

    @abstractmethod
    def exp(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        """e^x."""

    @abstractmethod
    def sigmoid(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        """1/(1+e^−x)."""

    @abstractmethod
    def silu(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        """x/(1+e^−x)."""

    @abstractmethod
    def softplus(self, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        """ln(1+e^x), x itself above 20."""

    @abstractmethod
    def group_softmax(self, x: Float32[Tensor, "groups ratio dim"]) -> Float32[Tensor, "groups ratio dim"]:
        """Softmax over the middle axis, per channel (spec §4.4)."""

    @abstractmethod
    def cos_sin(self, angle: Float32[Tensor, "*shape"]) -> tuple[Float32[Tensor, "*shape"], Float32[Tensor, "*shape"]]:
        """(cos, sin) of a float32 angle in radians."""

    @abstractmethod
    def top_indices(self, scores: Float[Tensor, "rows columns"], count: int) -> Int64[Tensor, "rows count"]:
        """The columns of the `count` largest scores, largest first; count ≤ columns."""
