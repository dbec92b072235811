"""Mixture of experts: router, routed experts, shared expert (spec §4.6)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import BFloat16, Bool
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.layer_kernels import LayerStages, Workspace
from shoal.ops.mixture import Dispatch, ExpertWeights, apply_routed, combine
from shoal.ops.routing import Router, Routes, route
from shoal.ops.sublayer import Entered

FEW_TOKENS = 8
"""Most tokens whose next experts are guessed: of more, the experts are nearly all there are."""


@runtime_checkable
class Experts(Protocol):
    """Where routed experts come from: mapped, cached or streamed. The model never learns which."""

    def request(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """Say that these experts will be asked for. Returns at once; may be ignored."""
        ...

    def expect(self, layer_id: int, guess: Callable[[], Sequence[int]]) -> None:
        """Offer a guess, the likeliest first, at what another layer will ask for next. May be ignored, even unasked."""
        ...

    def arrivals(self, layer_id: int, expert_ids: Sequence[int]) -> Iterator[list[tuple[int, ExpertWeights]]]:
        """Each of the experts once, in groups, in whatever order they become ready.

        A group is valid until the next one is taken. Raises a `ShoalError` when an expert cannot be read or holds a
        NaN scale.
        """
        ...


@dataclass(frozen=True)
class MoEWeights:
    """What stays in memory: the router and the shared expert."""

    router: Router
    shared: ExpertWeights


class MoE:
    """One layer's mixture."""

    def __init__(
        self, weights: MoEWeights, experts: Experts, plan: LayerPlan, config: ModelConfig, arithmetic: Arithmetic
    ) -> None:
        self.weights, self.experts, self.plan = weights, experts, plan
        self.limit, self.arithmetic = float(config.swiglu_limit), arithmetic

    def forward(
        self,
        entered: Entered,
        routes: Routes,
        streams: BFloat16[Tensor, "tokens streams dim"],
        following: "MoE | None" = None,
        image_mask: Bool[Tensor, "tokens"] | None = None,
    ) -> tuple[BFloat16[Tensor, "tokens dim"], BFloat16[Tensor, "tokens streams dim"]]:
        """The mixture's output and the streams it returns to. Every expert is taken once for all its rows.

        The experts of the `following` layer's mixture may be on their way before it asks for them.
        """
        dispatch = Dispatch.of(routes)
        self.experts.request(self.plan.layer_id, dispatch.expert_ids)
        if following is not None and streams.shape[0] <= FEW_TOKENS:
            self.experts.expect(following.plan.layer_id, lambda: following.guess(entered.x, image_mask))
        outputs = torch.empty((dispatch.tokens.numel(), entered.x.shape[1]), dtype=torch.bfloat16)
        missing, last = len(dispatch.expert_ids), list[tuple[int, ExpertWeights]]()
        # Whatever order they arrive in, they are added in ascending id.
        for arrived in self.experts.arrivals(self.plan.layer_id, dispatch.expert_ids):
            missing -= len(arrived)
            if missing:
                apply_routed(entered.x_q8, dispatch, arrived, self.limit, outputs, self.arithmetic)
            else:
                last = arrived
                break
        return combine(
            *(entered.x_q8, dispatch, last, outputs, self.weights.shared, self.limit),
            *(streams, entered.mix, self.arithmetic),
        )

    def forward_in_workspace(
        self,
        stages: LayerStages,
        workspace: Workspace,
        expert_ids: Sequence[int],
        following: "MoE | None",
        image_mask: Bool[Tensor, "tokens"] | None,
    ) -> None:
        """`forward`, from what `stages` left in the workspace to the layer's streams in it."""
        self.experts.request(self.plan.layer_id, expert_ids)
        if following is not None and workspace.tokens <= FEW_TOKENS:
            self.experts.expect(following.plan.layer_id, lambda: following.guess(workspace.x, image_mask))
        missing, last = len(expert_ids), list[tuple[int, ExpertWeights]]()
        for arrived in self.experts.arrivals(self.plan.layer_id, expert_ids):
            missing -= len(arrived)
            if missing:
                stages.apply(workspace, arrived)
            else:
                last = arrived
                break
        stages.finish(workspace, last)

    def guess(self, x: BFloat16[Tensor, "tokens dim"], image_mask: Bool[Tensor, "tokens"] | None) -> Sequence[int]:
        """The experts this layer may use for what is `x` in the layer before, the likeliest first.

        It is right about 64 % of the experts of the trained miniature, where the two most used are 20 %.
        """
        return likeliest(route(x, self.weights.router, image_mask, self.arithmetic))


def likeliest(routes: Routes) -> list[int]:
    """Their experts once each, every token's first choices first."""
    return list(dict.fromkeys(routes.expert_ids.T.flatten().tolist()))
