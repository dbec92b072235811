"""The FP4 linear of the native kernels."""

import torch
from jaxtyping import BFloat16
from torch import Tensor

import shoal._native as native
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.weights import Float4Weight


class Float4LinearKernels:
    """Part of `Kernels`."""

    native: native.Kernels

    def float4_linear(self, x: Quantized, weight: Float4Weight) -> BFloat16[Tensor, "tokens outputs"]:
        """`Wide.quantized_linear` of a weight whose scales hold no NaN, by the tiles made for many rows."""
        rows, inputs = x.codes.shape
        outputs = weight.codes.shape[0]
        assert x.format is Q8 and inputs % Q8.group == 0, (x.format, inputs)
        assert x.scales.shape == (rows, inputs // Q8.group), (x.scales.shape, x.codes.shape)
        assert weight.codes.shape == (outputs, inputs // 2), (weight.codes.shape, x.codes.shape)
        assert weight.scales.shape == (outputs, inputs // Q8.group), (weight.scales.shape, x.codes.shape)
        tensors = (x.codes, x.scales, weight.codes, weight.scales)
        assert all(tensor.dtype == torch.uint8 for tensor in tensors), [tensor.dtype for tensor in tensors]
        x_codes, x_scales, codes, scales = (tensor.contiguous() for tensor in tensors)
        y = torch.empty((rows, outputs), dtype=torch.bfloat16)
        pointers = x_codes.data_ptr(), x_scales.data_ptr(), codes.data_ptr(), scales.data_ptr()
        self.native.float4_linear(*pointers, rows, outputs, inputs, y.data_ptr())
        return y
