"""The native kernels of one instruction set, for tensors. The only importer of `shoal._native`.

Every kernel gives the bits of its torch twin under wide arithmetic. Tensors are checked here once; the kernels trust
them.
"""

import torch
from jaxtyping import BFloat16, Float, Float32, Float64
from torch import Tensor

import shoal._native as native
from shoal.errors import OptionError
from shoal.ops.probe_kernels import ProbeKernels
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.weights import BlockScaledWeight, Float4Weight

EXP, SIGMOID, SILU, SOFTPLUS = native.EXP, native.SIGMOID, native.SILU, native.SOFTPLUS
Mixes = tuple[Float32[Tensor, "tokens n"], Float32[Tensor, "tokens n"], Float32[Tensor, "tokens n n"]]


def available_isas() -> tuple[str, ...]:
    """Instruction sets this machine runs, best first; the last is `portable`."""
    return tuple(native.isas())


class Kernels(ProbeKernels):
    """The kernels of `isa`, the best one there is unless named. Raises OptionError for one the machine lacks."""

    def __init__(self, isa: str | None = None, threads: int = 1) -> None:
        available = available_isas()
        if isa is not None and isa not in available:
            raise OptionError(f"instruction set `{isa}` is not one of {', '.join(available)} on this machine")
        self.isa = isa or available[0]
        self.native = native.Kernels(self.isa, threads)

    def quantize_q8(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        """`quantize_q8_torch`, for finite x whose columns are a multiple of 32."""
        assert x.dtype == torch.bfloat16 and x.shape[-1] % Q8.group == 0, (x.dtype, x.shape)
        x = x.contiguous()
        codes = torch.empty(x.shape, dtype=torch.uint8)
        scales = torch.empty((*x.shape[:-1], Q8.scale_bytes(x.shape[-1])), dtype=torch.uint8)
        rows = x.numel() // x.shape[-1] if x.shape[-1] else 0
        native.quantize_q8(self.isa, x.data_ptr(), codes.data_ptr(), scales.data_ptr(), rows, x.shape[-1])
        return Quantized(codes, scales, Q8)

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

    def elementary(self, function: int, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        """EXP, SIGMOID, SILU or SOFTPLUS of every element, as `Wide` computes them."""
        assert x.dtype == torch.float32, x.dtype
        x = x.contiguous()
        y = torch.empty_like(x)
        native.elementary(self.isa, function, x.data_ptr(), y.data_ptr(), x.numel())
        return y

    def split_mix(
        self,
        u: Float32[Tensor, "tokens coefficients"],
        scale: Float32[Tensor, "3"],
        base: Float32[Tensor, "coefficients"],
        streams: int,
        iterations: int,
        eps: float,
    ) -> Mixes:
        """`split_mix_torch`: pre, post and comb."""
        assert u.shape[1] == base.numel() == streams * (streams + 2) and scale.numel() == 3, (u.shape, streams)
        tokens = u.shape[0]
        u, scale, base = u.contiguous(), scale.contiguous(), base.contiguous()
        pre, post = torch.empty((tokens, streams)), torch.empty((tokens, streams))
        comb = torch.empty((tokens, streams, streams))
        inputs = u.data_ptr(), scale.data_ptr(), base.data_ptr()
        outputs = pre.data_ptr(), post.data_ptr(), comb.data_ptr()
        native.split_mix(self.isa, *inputs, tokens, streams, iterations, eps, *outputs)
        return pre, post, comb
