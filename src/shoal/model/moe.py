"""Mixture of experts: router, routed experts, shared expert (spec §4.6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.expert import apply_expert
from shoal.ops.quantize import Quantized
from shoal.ops.routing import Routes, route
from shoal.ops.weights import BlockScaledWeight


@dataclass(frozen=True)
class ExpertWeights:
    """The three matrices of an expert, packed as stored."""

    w1: BlockScaledWeight
    w2: BlockScaledWeight
    w3: BlockScaledWeight

    @property
    def nbytes(self) -> int:
        """Bytes, as stored."""
        return self.w1.nbytes + self.w2.nbytes + self.w3.nbytes


@runtime_checkable
class Experts(Protocol):
    """Where routed experts come from: mapped, cached or streamed. The model never learns which."""

    def request(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """Say that these experts will be asked for. Returns at once; may be ignored."""
        ...

    def arrivals(self, layer_id: int, expert_ids: Sequence[int]) -> Iterator[tuple[int, ExpertWeights]]:
        """Each of the experts once, in whatever order they become ready; valid until the next one is taken.

        Raises a `ShoalError` when one cannot be read or holds a NaN scale.
        """
        ...


@dataclass(frozen=True)
class MoEWeights:
    """What stays in memory: the router and the shared expert."""

    gate: BFloat16[Tensor, "experts dim"]
    bias: Float32[Tensor, "experts"]
    bias_vl: Float32[Tensor, "experts"]
    shared: ExpertWeights


class MoE:
    """One layer's mixture."""

    def __init__(
        self, weights: MoEWeights, experts: Experts, plan: LayerPlan, config: ModelConfig, arithmetic: Arithmetic
    ) -> None:
        self.weights, self.experts, self.plan = weights, experts, plan
        self.config, self.arithmetic = config, arithmetic
        self.active = config.num_active_draft_experts if plan.is_draft else config.n_activated_experts

    def forward(self, x: BFloat16[Tensor, "tokens dim"], step: Step) -> BFloat16[Tensor, "tokens dim"]:
        """Σ routed experts in ascending id, then the shared one, in float32; one rounding to bf16.

        Every expert is taken once for all its rows.
        """
        routes = self._route(x, step)
        wanted = routes.expert_ids.unique().tolist()
        self.experts.request(self.plan.layer_id, wanted)
        x_q8 = self.arithmetic.quantize_q8(x)
        shared = self._apply(x_q8, self.weights.shared, None)
        outputs = self._routed(x_q8, routes, wanted)
        total = torch.zeros(x.shape, dtype=torch.float32)
        # Whatever order they arrived in, they are added in ascending id.
        for expert_id in wanted:
            rows, output = outputs[expert_id]
            total[rows] += output.float()
        return (total + shared.float()).to(torch.bfloat16)

    def _route(self, x: BFloat16[Tensor, "tokens dim"], step: Step) -> Routes:
        w, config = self.weights, self.config
        mask = None if self.plan.is_draft else step.batch.image_mask
        routes = route(x, w.gate, w.bias, w.bias_vl, mask, self.active, float(config.route_scale), self.arithmetic)
        for name in ("expert_ids", "weights", "margin"):
            short = "indices" if name == "expert_ids" else name
            step.record(f"L{self.plan.layer_id}.router.{short}", getattr(routes, name))
        return routes

    def _routed(
        self, x: Quantized, routes: Routes, wanted: list[int]
    ) -> dict[int, tuple[Tensor, BFloat16[Tensor, "rows dim"]]]:
        outputs = {}
        for expert_id, weights in self.experts.arrivals(self.plan.layer_id, wanted):
            rows, place = torch.where(routes.expert_ids == expert_id)
            outputs[expert_id] = rows, self._apply(x[rows], weights, routes.weights[rows, place])
        return outputs

    def _apply(
        self, x: Quantized, expert: ExpertWeights, weights: Float32[Tensor, "rows"] | None
    ) -> BFloat16[Tensor, "rows dim"]:
        limit = float(self.config.swiglu_limit)
        return apply_expert(x, expert.w1, expert.w2, expert.w3, weights, limit, self.arithmetic)
