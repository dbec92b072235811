"""Native arithmetic: wide, with the C++ kernels there are. The only importer of `shoal._native`."""

import torch
from jaxtyping import BFloat16
from torch import Tensor

import shoal._native as kernels
from shoal.errors import OptionError
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.wide import Wide


def available_isas() -> tuple[str, ...]:
    """Instruction sets this machine runs, best first; the last is `portable`."""
    return tuple(kernels.isas())


def quantize_q8_native(x: BFloat16[Tensor, "*rows columns"], isa: str) -> Quantized:
    """`quantize_q8_torch` bit for bit, for finite x whose columns are a multiple of 32."""
    assert x.dtype == torch.bfloat16 and x.shape[-1] % Q8.group == 0, (x.dtype, x.shape)
    x = x.contiguous()
    codes = torch.empty(x.shape, dtype=torch.uint8)
    scales = torch.empty((*x.shape[:-1], Q8.scale_bytes(x.shape[-1])), dtype=torch.uint8)
    rows = x.numel() // x.shape[-1] if x.shape[-1] else 0
    kernels.quantize_q8(isa, x.data_ptr(), codes.data_ptr(), scales.data_ptr(), rows, x.shape[-1])
    return Quantized(codes, scales, Q8)


class Native(Wide):
    """Wide arithmetic whose Q8 quantiser is the kernel of one instruction set, the best one unless named."""

    name = "native"

    def __init__(self, isa: str | None = None) -> None:
        available = available_isas()
        if isa is not None and isa not in available:
            raise OptionError(f"instruction set `{isa}` is not one of {', '.join(available)} on this machine")
        self.isa = isa or available[0]

    def quantize_q8(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        return quantize_q8_native(x, self.isa)
