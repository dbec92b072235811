"""The native kernels of one instruction set, for tensors. The only importer of `shoal._native`.

Every kernel gives the bits of its torch twin under wide arithmetic. Tensors are checked here once; the kernels trust
them.
"""

import torch
from jaxtyping import BFloat16, Float, Float64
from torch import Tensor

import shoal._native as native
from shoal.errors import OptionError
from shoal.ops.attention_kernels import AttentionKernels
from shoal.ops.elementwise_kernels import EXP, SIGMOID, SILU, SOFTPLUS, ElementwiseKernels
from shoal.ops.experts_kernels import ExpertsKernels
from shoal.ops.float4_linear_kernels import Float4LinearKernels
from shoal.ops.indexer_kernels import IndexerKernels
from shoal.ops.linear_kernels import LinearKernels
from shoal.ops.quantize import Quantized
from shoal.ops.weights import BlockScaledWeight, Float4Weight

__all__ = ["EXP", "SIGMOID", "SILU", "SOFTPLUS", "Kernels", "available_isas"]


def available_isas() -> tuple[str, ...]:
    """Instruction sets this machine runs, best first; the last is `portable`."""
    return tuple(native.isas())


class Kernels(ElementwiseKernels, LinearKernels, AttentionKernels, IndexerKernels, Float4LinearKernels, ExpertsKernels):
    """The kernels of `isa`, the best one there is unless named, on `threads` of their own.

    Raises OptionError for an instruction set that the machine lacks.
    """

    def __init__(self, isa: str | None = None, threads: int = 1) -> None:
        available = available_isas()
        if isa is not None and isa not in available:
            raise OptionError(f"instruction set `{isa}` is not one of {', '.join(available)} on this machine")
        self.isa = isa or available[0]
        self.native = native.Kernels(self.isa, threads)

    def block_linear(self, x: Quantized, weight: BlockScaledWeight) -> BFloat16[Tensor, "tokens outputs"]:
        """`Wide.quantized_linear`, from the packed codes. The weight's codes hold no NaN."""
        is_e2m1 = isinstance(weight, Float4Weight)
        outputs, inputs = weight.codes.shape[0], x.codes.shape[-1]
        assert weight.codes.shape[1] * (2 if is_e2m1 else 1) == inputs, (weight.codes.shape, x.codes.shape)
        x_codes, x_scales = x.codes.contiguous(), x.scales.contiguous()
        codes, scales = weight.codes.contiguous(), weight.scales.contiguous()
        y = torch.empty((x_codes.shape[0], outputs), dtype=torch.bfloat16)
        native.block_linear(
            self.isa,
            x_codes.data_ptr(),
            x_scales.data_ptr(),
            codes.data_ptr(),
            scales.data_ptr(),
            is_e2m1,
            x_codes.shape[0],
            outputs,
            inputs,
            y.data_ptr(),
        )
        return y

    def halving_dots(
        self, a: Float[Tensor, "batch rows inner"], b: Float[Tensor, "batch columns inner"]
    ) -> Float64[Tensor, "batch rows columns"]:
        """`wide.dot` of every row with every column of its batch."""
        assert a.shape[0] == b.shape[0] and a.shape[2] == b.shape[2], (a.shape, b.shape)
        a, b = a.float().contiguous(), b.float().contiguous()
        y = torch.empty((a.shape[0], a.shape[1], b.shape[1]), dtype=torch.float64)
        batch, rows, columns = y.shape
        native.halving_dots(self.isa, a.data_ptr(), b.data_ptr(), y.data_ptr(), batch, rows, columns, a.shape[2])
        return y
