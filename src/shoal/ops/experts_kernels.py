"""The experts operators of `Kernels`: routed experts of a step, their sum, and SwiGLU with its quantiser."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import BFloat16, Float32, Int32
from torch import Tensor

import shoal._native as native
from shoal.ops.addresses import address, empty_quantized, quantized_addresses
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.weights import BLOCK, BlockScaledWeight, Float4Weight


@runtime_checkable
class ExpertMatrices(Protocol):
    """The three matrices of an expert, and where they are."""

    @property
    def w1(self) -> BlockScaledWeight: ...
    @property
    def w2(self) -> BlockScaledWeight: ...
    @property
    def w3(self) -> BlockScaledWeight: ...
    @property
    def addresses(self) -> tuple[int, ...]: ...


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
        """`apply_expert_torch` of every FP4 expert on its rows of x; row `slots[i]` of the result is row_ids[i]'s.

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
            assert tensor.dtype == dtype and tensor.shape == (rows,), (name, tensor.dtype, tensor.shape)
        outputs = torch.empty((rows, dim), dtype=torch.bfloat16)
        if rows:
            inter = experts[0].w1.codes.shape[0]
            first = address(row_ids), address(weights), address(slots)
            bounds = pairwise(accumulate(counts, initial=0))
            listed = [expert_argument(e, dim, inter, *rows, first) for e, rows in zip(experts, bounds, strict=True)]
            self.native.routed_experts(*quantized_addresses(x), tokens, dim, inter, limit, listed, address(outputs))
        return outputs

    def sum_experts(
        self,
        outputs: BFloat16[Tensor, "rows dim"],
        slots: Int32[Tensor, "tokens active"],
        shared: BFloat16[Tensor, "tokens dim"] | None,
    ) -> BFloat16[Tensor, "tokens dim"]:
        """bf16(0 + Σ outputs[slots[t, i]] + shared[t]) in float32 and in that order: slots ascend by expert id."""
        (tokens, active), dim = slots.shape, outputs.shape[1]
        assert outputs.dtype == torch.bfloat16 and slots.dtype == torch.int32, (outputs.dtype, slots.dtype)
        assert shared is None or (shared.dtype == torch.bfloat16 and shared.shape == (tokens, dim)), shared
        y = torch.empty((tokens, dim), dtype=torch.bfloat16)
        self.native.sum_experts(address(outputs), address(slots), address(shared), tokens, active, dim, address(y))
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
        result = empty_quantized(Q8, rows, inter)
        self.native.swiglu_q8(
            address(gate), address(up), rows, inter, address(weights), limit, *quantized_addresses(result)
        )
        return result


def expert_argument(
    expert: ExpertMatrices, dim: int, inter: int, start: int, end: int, first: Sequence[int]
) -> tuple[int, ...]:
    """How the kernel takes an FP4 expert with rows [start, end) of row ids, weights and slots, at `first`."""
    # Each of the three has 4 bytes a row.
    assert expert.w1.codes.shape == (inter, dim // 2), (expert.w1.codes.shape, inter, dim)
    return *expert.addresses, end - start, *[base + 4 * start for base in first]


def matrix_addresses(w1: BlockScaledWeight, w2: BlockScaledWeight, w3: BlockScaledWeight) -> tuple[int, ...]:
    """Of codes and scales of an FP4 expert's w1, w2 and w3, whose sizes agree."""
    inter, dim = w1.codes.shape[0], 2 * w1.codes.shape[1]
    shapes = (w1, inter, dim), (w2, dim, inter), (w3, inter, dim)
    for weight, outputs, inputs in shapes:
        assert isinstance(weight, Float4Weight), type(weight)
        assert weight.codes.shape == (outputs, inputs // 2), (weight.codes.shape, outputs, inputs)
        assert weight.scales.shape == (outputs, inputs // BLOCK), (weight.scales.shape, outputs, inputs)
    return tuple(address(part) for weight, _, _ in shapes for part in (weight.codes, weight.scales))
