"""The router: which experts a token goes to, and with what weight (spec §4.6)."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Bool, Float32, Int64
from torch import Tensor, where

from shoal.ops.addresses import address
from shoal.ops.arithmetic import Arithmetic

WEIGHT_FLOOR = 1e-20


@dataclass(frozen=True)
class Routes:
    """The experts of each token, best first, with their weights."""

    expert_ids: Int64[Tensor, "tokens active"]
    weights: Float32[Tensor, "tokens active"]
    margin: Float32[Tensor, "tokens"]


@dataclass(frozen=True)
class Router:
    """The router's weights: experts compete by s + bias, with `bias_vl` inside images; `active` of them win."""

    gate: BFloat16[Tensor, "experts dim"]
    bias: Float32[Tensor, "experts"]
    bias_vl: Float32[Tensor, "experts"]
    active: int
    scale: float


def route(
    x: BFloat16[Tensor, "tokens dim"],
    router: Router,
    image_mask: Bool[Tensor, "tokens"] | None,
    arithmetic: Arithmetic,
) -> Routes:
    """The experts of each row of x."""
    return route_logits(arithmetic.linear_float32(x, router.gate), router, image_mask, arithmetic)


def route_logits(
    logits: Float32[Tensor, "tokens experts"],
    router: Router,
    image_mask: Bool[Tensor, "tokens"] | None,
    arithmetic: Arithmetic,
) -> Routes:
    """s = √softplus(logits); the `active` largest of s + bias; weights scale·s/Σs from the unbiased s.

    `margin` is the distance from the last one chosen to the first one not.
    """
    if arithmetic.kernels is not None:
        chosen = (router.bias, router.bias_vl, image_mask, router.active, router.scale)
        return Routes(*arithmetic.kernels.route(logits, *chosen))
    return route_logits_torch(logits, router, image_mask, arithmetic)


def route_logits_torch(
    logits: Float32[Tensor, "tokens experts"],
    router: Router,
    image_mask: Bool[Tensor, "tokens"] | None,
    arithmetic: Arithmetic,
) -> Routes:
    """`route_logits` in torch; the kernel gives its bits under wide arithmetic."""
    score = arithmetic.sqrt(arithmetic.softplus(logits))
    biased = score + (router.bias if image_mask is None else where(image_mask[:, None], router.bias_vl, router.bias))
    expert_ids = arithmetic.top_indices(biased, router.active)
    chosen = score.gather(1, expert_ids)
    total = arithmetic.total(chosen).float()[:, None] + WEIGHT_FLOOR
    runners_up = biased.scatter(1, expert_ids, float("-inf")).amax(-1)
    margin = biased.gather(1, expert_ids).amin(-1) - runners_up
    return Routes(expert_ids, chosen / total * router.scale, margin)


def empty_routes(tokens: int, active: int) -> Routes:
    """Room for routes; what it holds means nothing."""
    expert_ids = torch.empty((tokens, active), dtype=torch.int64)
    return Routes(expert_ids, torch.empty((tokens, active)), torch.empty(tokens))


def router_arguments(
    router: Router | None, image_mask: Bool[Tensor, "tokens"] | None, routes: Routes | None
) -> tuple[int | float, ...]:
    """How a stage takes a router and the room for its result; without one nothing is routed."""
    if router is None or routes is None:
        return (0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0)
    return (
        *map(address, (router.gate, router.bias, router.bias_vl, image_mask)),
        *(router.gate.shape[0], router.active, router.scale),
        *map(address, (routes.expert_ids, routes.weights, routes.margin)),
    )
