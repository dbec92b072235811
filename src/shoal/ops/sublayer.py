"""A sublayer's input from the residual streams, and its output back into them (spec §4.1).

The mixes are single-pass: a sublayer's input is collapsed with the `pre` of the sublayer before it.
"""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Bool, Float32
from torch import Tensor

from shoal.ops.addresses import address, empty_quantized, quantized_addresses
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.hyper_connections import Mix, collapse_norm_q8, mix_coefficients, split_mix
from shoal.ops.kernels import Kernels
from shoal.ops.quantize import Q8, Quantized
from shoal.ops.routing import Router, Routes, empty_routes, route, router_arguments


@dataclass(frozen=True)
class EntryWeights:
    """The mix projection of one sublayer in float32, and the norm of its input."""

    fn: Float32[Tensor, "coefficients inputs"]
    base: Float32[Tensor, "coefficients"]
    scale: Float32[Tensor, "3"]
    norm: BFloat16[Tensor, "dim"]


@dataclass(frozen=True)
class EntryOptions:
    """Sinkhorn's iterations and epsilon, and the epsilon of both norms."""

    iterations: int
    hc_eps: float
    norm_eps: float


@dataclass(frozen=True)
class Entered:
    """What a sublayer starts from: its input, the same in Q8, and the mix that its output returns by."""

    x: BFloat16[Tensor, "tokens dim"]
    x_q8: Quantized
    mix: Mix


def enter_sublayer(
    streams: BFloat16[Tensor, "tokens streams dim"],
    pre: Float32[Tensor, "tokens streams"],
    weights: EntryWeights,
    options: EntryOptions,
    arithmetic: Arithmetic,
) -> Entered:
    """x = RMSNorm(Σ_c pre[c]·h[c]); the mix comes from the streams before they are collapsed."""
    if arithmetic.kernels is not None:
        return _enter_native(streams, pre, weights, None, None, options, arithmetic.kernels)[0]
    return enter_sublayer_torch(streams, pre, weights, options, arithmetic)


def enter_sublayer_torch(
    streams: BFloat16[Tensor, "tokens streams dim"],
    pre: Float32[Tensor, "tokens streams"],
    weights: EntryWeights,
    options: EntryOptions,
    arithmetic: Arithmetic,
) -> Entered:
    """`enter_sublayer` in torch, or of the operators that `arithmetic` has."""
    u = mix_coefficients(streams, weights.fn, options.norm_eps, arithmetic)
    iterations, eps = options.iterations, options.hc_eps
    mix = split_mix(u, weights.scale, weights.base, streams.shape[1], iterations, eps, arithmetic)
    return Entered(*collapse_norm_q8(streams, pre, weights.norm, options.norm_eps, arithmetic), mix)


def enter_mixture(
    streams: BFloat16[Tensor, "tokens streams dim"],
    pre: Float32[Tensor, "tokens streams"],
    weights: EntryWeights,
    router: Router,
    image_mask: Bool[Tensor, "tokens"] | None,
    options: EntryOptions,
    arithmetic: Arithmetic,
) -> tuple[Entered, Routes]:
    """`enter_sublayer`, and the experts that each token goes to."""
    if arithmetic.kernels is not None:
        entered, routes = _enter_native(streams, pre, weights, router, image_mask, options, arithmetic.kernels)
        assert routes is not None
        return entered, routes
    return enter_mixture_torch(streams, pre, weights, router, image_mask, options, arithmetic)


def enter_mixture_torch(
    streams: BFloat16[Tensor, "tokens streams dim"],
    pre: Float32[Tensor, "tokens streams"],
    weights: EntryWeights,
    router: Router,
    image_mask: Bool[Tensor, "tokens"] | None,
    options: EntryOptions,
    arithmetic: Arithmetic,
) -> tuple[Entered, Routes]:
    """`enter_mixture` in torch, or of the operators that `arithmetic` has."""
    entered = enter_sublayer_torch(streams, pre, weights, options, arithmetic)
    return entered, route(entered.x, router, image_mask, arithmetic)


def _enter_native(
    streams: BFloat16[Tensor, "tokens streams dim"],
    pre: Float32[Tensor, "tokens streams"],
    weights: EntryWeights,
    router: Router | None,
    image_mask: Bool[Tensor, "tokens"] | None,
    options: EntryOptions,
    kernels: Kernels,
) -> tuple[Entered, Routes | None]:
    tokens, num_streams, dim = streams.shape
    x, x_q8 = torch.empty((tokens, dim), dtype=torch.bfloat16), empty_quantized(Q8, tokens, dim)
    mix = Mix(
        torch.empty((tokens, num_streams)),
        torch.empty((tokens, num_streams)),
        torch.empty((tokens, num_streams, num_streams)),
    )
    routes = None if router is None else empty_routes(tokens, router.active)
    streams, pre = streams.contiguous(), pre.contiguous()
    kernels.native.enter_sublayer(
        *map(address, (streams, pre, weights.fn, weights.scale, weights.base, weights.norm)),
        *(tokens, num_streams, dim, options.iterations, options.hc_eps, options.norm_eps),
        *(address(x), *quantized_addresses(x_q8), *map(address, (mix.pre, mix.post, mix.comb))),
        *router_arguments(router, image_mask, routes),
    )
    return Entered(x, x_q8, mix), routes
