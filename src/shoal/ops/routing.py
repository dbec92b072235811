"""The router: which experts a token goes to, and with what weight (spec §4.6)."""

from dataclasses import dataclass

from jaxtyping import BFloat16, Bool, Float32, Int64
from torch import Tensor, where

from shoal.ops.arithmetic import Arithmetic

WEIGHT_FLOOR = 1e-20


@dataclass(frozen=True)
class Routes:
    """The experts of each token, best first, with their weights."""

    expert_ids: Int64[Tensor, "tokens active"]
    weights: Float32[Tensor, "tokens active"]
    margin: Float32[Tensor, "tokens"]


def route(
    x: BFloat16[Tensor, "tokens dim"],
    weight: BFloat16[Tensor, "experts dim"],
    bias: Float32[Tensor, "experts"],
    bias_vl: Float32[Tensor, "experts"],
    image_mask: Bool[Tensor, "tokens"] | None,
    active: int,
    route_scale: float,
    arithmetic: Arithmetic,
) -> Routes:
    """s = √softplus(x·wᵀ); the `active` largest of s + bias; weights route_scale·s/Σs from the unbiased s.

    Image rows select with `bias_vl`. `margin` is the distance from the last one chosen to the first one not.
    """
    logits = arithmetic.linear_float32(x, weight)
    if arithmetic.kernels is not None:
        return Routes(*arithmetic.kernels.route(logits, bias, bias_vl, image_mask, active, route_scale))
    return route_logits_torch(logits, bias, bias_vl, image_mask, active, route_scale, arithmetic)


def route_logits_torch(
    logits: Float32[Tensor, "tokens experts"],
    bias: Float32[Tensor, "experts"],
    bias_vl: Float32[Tensor, "experts"],
    image_mask: Bool[Tensor, "tokens"] | None,
    active: int,
    route_scale: float,
    arithmetic: Arithmetic,
) -> Routes:
    """`route` from the logits x·wᵀ; the kernel gives its bits under wide arithmetic."""
    score = arithmetic.sqrt(arithmetic.softplus(logits))
    biased = score + (bias if image_mask is None else where(image_mask[:, None], bias_vl, bias))
    expert_ids = arithmetic.top_indices(biased, active)
    chosen = score.gather(1, expert_ids)
    total = arithmetic.total(chosen).float()[:, None] + WEIGHT_FLOOR
    runners_up = biased.scatter(1, expert_ids, float("-inf")).amax(-1)
    margin = biased.gather(1, expert_ids).amin(-1) - runners_up
    return Routes(expert_ids, chosen / total * route_scale, margin)
