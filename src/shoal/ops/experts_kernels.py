"""The experts operators of `Kernels`: routed experts of a step, their sum, and SwiGLU with its quantiser."""

from collections.abc import Sequence
from typing import Protocol

import torch
from jaxtyping import BFloat16, Float32, Int32
from torch import Tensor

import shoal._native as native
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.weights import BLOCK, BlockScaledWeight, Float4Weight


class ExpertMatrices(Protocol):
    """The three matrices of an expert."""

    @property
    def w1(self) -> BlockScaledWeight: ...
    @property
    def w2(self) -> BlockScaledWeight: ...
    @property
    def w3(self) -> BlockScaledWeight: ...


class ExpertsKernels:
    """Mixed into `Kernels`."""

    native: native.Kernels

    def routed_experts(
        self,
        x: Quantized,
        experts: Sequence[ExpertMatrices],
        counts: Sequence[int],
        row_ids: Int32[Tensor, "rows"],
        weights: Float32[Tensor, "rows"],
        slots: Int32[Tensor, "rows"],
        limit: float,
    ) -> BFloat16[Tensor, "rows dim"]:
        """`apply_expert_torch` of every FP4 expert on its rows of x; row `slots[i]` of the result is that of `row_ids[i]`.

        The first `counts[0]` of row_ids, weights and slots are the first expert's rows, and so on; slots are a
        permutation of all rows. Every byte of an expert is read once. Scales hold no 255.
        """
        rows, (tokens, dim) = row_ids.numel(), x.codes.shape
        assert len(experts) == len(counts) and sum(counts) == rows, (len(experts), counts, rows)
        for name, tensor, dtype in (
            ("row_ids", row_ids, torch.int32),
            ("weights", weights, torch.float32),
            ("slots", slots, torch.int32),
        ):
            assert tensor.dtype == dtype and tensor.shape == (rows,) and tensor.is_contiguous(), (name, tensor.shape)
        outputs = torch.empty((rows, dim), dtype=torch.bfloat16)
        if rows == 0:
            return outputs
        inter = experts[0].w1.codes.shape[0]
        x_codes, x_scales = x.codes.contiguous(), x.scales.contiguous()
        self.native.routed_experts(
            x_codes.data_ptr(),
            x_scales.data_ptr(),
            tokens,
            dim,
            inter,
            limit,
            [address for expert in experts for address in _addresses(expert, dim, inter)],
            list(counts),
            row_ids.data_ptr(),
            weights.data_ptr(),
            slots.data_ptr(),
            outputs.data_ptr(),
        )
        return outputs

    def sum_experts(
        self,
        outputs: BFloat16[Tensor, "rows dim"],
        slots: Int32[Tensor, "tokens active"],
        shared: BFloat16[Tensor, "tokens dim"] | None,
    ) -> BFloat16[Tensor, "tokens dim"]:
        """bf16(0 + Σ outputs[slots[t, i]] + shared[t]) in float32 and in that order: slots ascend by expert id."""
        (tokens, active), dim = slots.shape, outputs.shape[1]
        assert outputs.dtype == torch.bfloat16 and outputs.is_contiguous(), (outputs.dtype, outputs.shape)
        assert slots.dtype == torch.int32, slots.dtype
        assert shared is None or (shared.dtype == torch.bfloat16 and shared.shape == (tokens, dim)), shared
        slots, shared = slots.contiguous(), None if shared is None else shared.contiguous()
        y = torch.empty((tokens, dim), dtype=torch.bfloat16)
        shared_address = 0 if shared is None else shared.data_ptr()
        self.native.sum_experts(
            outputs.data_ptr(), slots.data_ptr(), shared_address, tokens, active, dim, y.data_ptr()
        )
        return y

    def swiglu_q8(
        self,
        gate: BFloat16[Tensor, "rows inter"],
        up: BFloat16[Tensor, "rows inter"],
        weights: Float32[Tensor, "rows"] | None,
        limit: float,
    ) -> Quantized:
        """`quantize_q8_torch` of `swiglu_torch` under wide arithmetic. A group that holds no number gets scale 255."""
        assert gate.dtype == up.dtype == torch.bfloat16 and gate.shape == up.shape, (gate.shape, up.shape)
        rows, inter = gate.shape
        assert inter % Q8.group == 0, inter
        assert weights is None or (weights.dtype == torch.float32 and weights.shape == (rows,)), weights
        gate, up = gate.contiguous(), up.contiguous()
        weights = None if weights is None else weights.contiguous()
        codes = torch.empty((rows, inter), dtype=torch.uint8)
        scales = torch.empty((rows, Q8.scale_bytes(inter)), dtype=torch.uint8)
        self.native.swiglu_q8(
            gate.data_ptr(),
            up.data_ptr(),
            rows,
            inter,
            0 if weights is None else weights.data_ptr(),
            limit,
            codes.data_ptr(),
            scales.data_ptr(),
        )
        return Quantized(codes, scales, Q8)


def _addresses(expert: ExpertMatrices, dim: int, inter: int) -> tuple[int, ...]:
    w1, w2, w3 = expert.w1, expert.w2, expert.w3
    return (
        *_matrix_addresses(w1, inter, dim),
        *_matrix_addresses(w2, dim, inter),
        *_matrix_addresses(w3, inter, dim),
    )


def _matrix_addresses(weight: BlockScaledWeight, outputs: int, inputs: int) -> tuple[int, int]:
    codes, scales = weight.codes, weight.scales
    assert isinstance(weight, Float4Weight), type(weight)
    assert codes.shape == (outputs, inputs // 2) and codes.is_contiguous(), (codes.shape, outputs, inputs)
    assert scales.shape == (outputs, inputs // BLOCK) and scales.is_contiguous(), (scales.shape, outputs, inputs)
    return codes.data_ptr(), scales.data_ptr()
