"""The operators of a mixture of experts, composed as the model composes them."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32, Int64
from torch import Tensor

from shoal.bench.region import ExpertRegion
from shoal.model.moe import ExpertWeights
from shoal.ops.kernels import Kernels
from shoal.ops.quantize import Quantized
from shoal.ops.weights import Float8Weight

LIMIT = 10.0
"""The release's `swiglu_limit`."""


@dataclass(frozen=True)
class SharedExpert:
    """Its three FP8 matrices."""

    w1: Float8Weight
    w2: Float8Weight
    w3: Float8Weight

    @property
    def nbytes(self) -> int:
        """As stored."""
        return self.w1.nbytes + self.w2.nbytes + self.w3.nbytes


@dataclass(frozen=True)
class RoutedExpert:
    """An expert with its rows: token numbers, router weights, and the output row of each."""

    weights: ExpertWeights
    row_ids: Int64[Tensor, "rows"]
    row_weights: Float32[Tensor, "rows"]
    slots: Int64[Tensor, "rows"]


@dataclass(frozen=True)
class Routing:
    """The routed half of a step: experts in ascending id, and for every token its output rows in that order."""

    experts: list[RoutedExpert]
    slots: Int64[Tensor, "tokens active"]

    @classmethod
    def draw(cls, region: ExpertRegion, picks: Int64[Tensor, "tokens active"], generator: torch.Generator) -> "Routing":
        """The step in which token t picks the experts `picks[t]`."""
        picks = picks.sort(dim=1).values
        tokens, active = picks.shape
        row_weights = torch.rand((tokens, active), generator=generator) / active
        slots = torch.arange(tokens * active).view(tokens, active)
        experts = []
        for expert in picks.unique().tolist():
            rows, columns = (picks == expert).nonzero(as_tuple=True)
            chosen = rows, columns
            experts.append(RoutedExpert(region.expert(expert), rows, row_weights[chosen], slots[chosen]))
        return cls(experts, slots)


def run_routed(kernels: Kernels, x: Quantized, routing: Routing) -> BFloat16[Tensor, "slots dim"]:
    """Every expert applied to its rows."""
    experts = [(each.weights, each.row_ids, each.row_weights, each.slots) for each in routing.experts]
    return kernels.routed_experts(x, experts, routing.slots.numel(), LIMIT)


def run_step(kernels: Kernels, x: Quantized, routing: Routing, shared: SharedExpert) -> BFloat16[Tensor, "tokens dim"]:
    """The whole mixture: routed experts, the shared one, and their sum."""
    gate, up = kernels.float8_linears(x, (shared.w1, shared.w3))
    alone = kernels.float8_linear(kernels.swiglu_q8(gate, up, None, LIMIT), shared.w2)
    return kernels.sum_experts(run_routed(kernels, x, routing), routing.slots, alone)
