"""The operators of a mixture of experts, composed as the model composes them."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32, Int32, Int64
from torch import Tensor

from shoal.bench.region import ExpertRegion
from shoal.ops.kernels import Kernels
from shoal.ops.mixture import ExpertWeights
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
class Routing:
    """The routed half of a step, experts in ascending id.

    The first `counts[0]` rows are the first expert's, and so on: token numbers, router weights, and where each row's
    result goes. `token_slots` are a token's results in ascending expert id.
    """

    experts: list[ExpertWeights]
    counts: list[int]
    row_ids: Int32[Tensor, "rows"]
    weights: Float32[Tensor, "rows"]
    slots: Int32[Tensor, "rows"]
    token_slots: Int32[Tensor, "tokens active"]

    @classmethod
    def draw(cls, region: ExpertRegion, picks: Int64[Tensor, "tokens active"], generator: torch.Generator) -> "Routing":
        """The step in which token t picks the experts `picks[t]`."""
        tokens, active = picks.shape
        token_slots = torch.arange(tokens * active, dtype=torch.int32).view(tokens, active)
        flat = picks.sort(dim=1).values.flatten()
        slots = flat.sort(stable=True).indices
        ids, counts = flat.unique(return_counts=True)
        return cls(
            [region.expert(expert) for expert in ids.tolist()],
            counts.tolist(),
            (slots // active).int(),
            torch.rand(tokens * active, generator=generator) / active,
            slots.int(),
            token_slots,
        )


def run_routed(kernels: Kernels, x: Quantized, routing: Routing) -> BFloat16[Tensor, "rows dim"]:
    """Every expert applied to its rows."""
    r = routing
    return kernels.routed_experts(x, r.experts, r.counts, r.row_ids, r.weights, r.slots, LIMIT)


def run_step(
    kernels: Kernels, x: Quantized, routing: Routing, shared: SharedExpert | None
) -> BFloat16[Tensor, "tokens dim"]:
    """The whole mixture: routed experts, the shared one if given, and their sum."""
    alone = None
    if shared is not None:
        gate, up = kernels.float8_linears(x, (shared.w1, shared.w3))
        alone = kernels.float8_linear(kernels.swiglu_q8(gate, up, None, LIMIT), shared.w2)
    return kernels.sum_experts(run_routed(kernels, x, routing), routing.token_slots, alone)
