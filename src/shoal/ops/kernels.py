"""The native kernels of one instruction set, for tensors: one mixin a family of operators.

Only these files import `shoal._native`. Tensors are checked here once; the kernels trust them.
"""

import shoal._native as native
from shoal.errors import OptionError
from shoal.ops.attention_kernels import AttentionKernels
from shoal.ops.elementwise_kernels import EXP, SIGMOID, SILU, SOFTPLUS, ElementwiseKernels
from shoal.ops.experts_kernels import ExpertsKernels
from shoal.ops.float4_linear_kernels import Float4LinearKernels
from shoal.ops.indexer_kernels import IndexerKernels
from shoal.ops.linear_kernels import LinearKernels
from shoal.ops.probe_kernels import ProbeKernels

__all__ = ["EXP", "SIGMOID", "SILU", "SOFTPLUS", "Kernels", "available_isas"]


def available_isas() -> tuple[str, ...]:
    """Instruction sets this machine runs, best first; the last is `portable`."""
    return tuple(native.isas())


class Kernels(
    ElementwiseKernels,
    LinearKernels,
    AttentionKernels,
    IndexerKernels,
    Float4LinearKernels,
    ExpertsKernels,
    ProbeKernels,
):
    """The kernels of `isa`, the best one there is unless named, on `threads` of their own.

    Raises OptionError for an instruction set that the machine lacks.
    """

    def __init__(self, isa: str | None = None, threads: int = 1) -> None:
        available = available_isas()
        if isa is not None and isa not in available:
            raise OptionError(f"instruction set `{isa}` is not one of {', '.join(available)} on this machine")
        self.isa = isa or available[0]
        self.native = native.Kernels(self.isa, threads)
