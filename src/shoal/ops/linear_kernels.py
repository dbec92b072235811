"""Dense products x·Wᵀ on the native kernels, for tensors.

Element k of a product goes to lane k mod 16, added by a fused multiply-add in float32; the lanes are then added as a tree
(i and i + 8, then 4, 2, 1). So a row has the same bits alone and in company, on any instruction set and threads.
"""

from collections.abc import Sequence

import torch
from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal._native import Kernels as Native
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.weights import BLOCK, Float8Weight


class LinearKernels:
    """The linear operators of `Kernels`. FP8 weights hold no NaN; a NaN result is always the same NaN."""

    native: Native

    def float8_linear(self, x: Quantized, weight: Float8Weight) -> BFloat16[Tensor, "tokens outputs"]:
        """x·Wᵀ of a Q8 input and an FP8 weight, rounded to bf16."""
        (y,) = self.float8_linears(x, [weight])
        return y

    def float8_linears(
        self, x: Quantized, weights: Sequence[Float8Weight]
    ) -> tuple[BFloat16[Tensor, "tokens outputs"], ...]:
        """`float8_linear` of one input with several weights, in one call."""
        assert x.format is Q8 and x.codes.ndim == 2, (x.format.name, x.codes.shape)
        rows, inputs = x.codes.shape
        assert x.scales.shape == (rows, Q8.scale_bytes(inputs)), (x.scales.shape, x.codes.shape)
        x_codes, x_scales = x.codes.contiguous(), x.scales.contiguous()
        held = [_float8(weight, inputs) for weight in weights]
        results = tuple(torch.empty((rows, weight.codes.shape[0]), dtype=torch.bfloat16) for weight in held)
        addresses = [
            (weight.codes.data_ptr(), weight.scales.data_ptr(), y.data_ptr(), y.shape[1])
            for weight, y in zip(held, results, strict=True)
        ]
        self.native.float8_linears(x_codes.data_ptr(), x_scales.data_ptr(), addresses, rows, inputs)
        return results

    def grouped_linear(
        self, x: BFloat16[Tensor, "tokens groups inputs"], weight: Float8Weight
    ) -> BFloat16[Tensor, "tokens groups outputs"]:
        """One product a group of unquantised x with the group's rows of an FP8 weight, rounded to bf16."""
        rows, groups, inputs = x.shape
        assert x.dtype == torch.bfloat16 and weight.codes.shape[0] % groups == 0, (x.dtype, x.shape, weight.codes.shape)
        outputs = weight.codes.shape[0] // groups
        x, held = x.contiguous(), _float8(weight, inputs)
        y = torch.empty((rows, groups, outputs), dtype=torch.bfloat16)
        self.native.grouped_linear(
            x.data_ptr(), held.codes.data_ptr(), held.scales.data_ptr(), y.data_ptr(), rows, groups, outputs, inputs
        )
        return y

    def bf16_linear(
        self,
        x: BFloat16[Tensor, "tokens inputs"],
        weight: BFloat16[Tensor, "outputs inputs"],
        dtype: torch.dtype = torch.bfloat16,
    ) -> Tensor:
        """x·Wᵀ of bf16, as float32 or rounded to bf16."""
        assert x.dtype == weight.dtype == torch.bfloat16 and x.shape[1:] == weight.shape[1:], (x.shape, weight.shape)
        assert dtype in (torch.bfloat16, torch.float32), dtype
        x, weight = x.contiguous(), weight.contiguous()
        y = torch.empty((x.shape[0], weight.shape[0]), dtype=dtype)
        y_float, y_bf16 = (y.data_ptr(), 0) if dtype == torch.float32 else (0, y.data_ptr())
        self.native.bf16_linear(x.data_ptr(), weight.data_ptr(), y_float, y_bf16, *y.shape, x.shape[1])
        return y

    def float32_linear(
        self, x: BFloat16[Tensor, "tokens inputs"], weight: Float32[Tensor, "outputs inputs"]
    ) -> tuple[Float32[Tensor, "tokens outputs"], Float32[Tensor, "tokens"]]:
        """x·Wᵀ of bf16 x and a float32 weight, and the mean of x² of every row, both float32."""
        assert x.dtype == torch.bfloat16 and weight.dtype == torch.float32, (x.dtype, weight.dtype)
        assert x.shape[1:] == weight.shape[1:], (x.shape, weight.shape)
        x, weight = x.contiguous(), weight.contiguous()
        y, mean_square = torch.empty((x.shape[0], weight.shape[0])), torch.empty(x.shape[0])
        self.native.float32_linear(
            x.data_ptr(), weight.data_ptr(), y.data_ptr(), mean_square.data_ptr(), *y.shape, x.shape[1]
        )
        return y, mean_square


def _float8(weight: Float8Weight, inputs: int) -> Float8Weight:
    outputs = weight.codes.shape[0]
    assert weight.codes.shape[1] == inputs and inputs % BLOCK == 0, (weight.codes.shape, inputs)
    assert weight.scales.shape == (-(-outputs // BLOCK), inputs // BLOCK), (weight.scales.shape, weight.codes.shape)
    return Float8Weight(weight.codes.contiguous(), weight.scales.contiguous())
