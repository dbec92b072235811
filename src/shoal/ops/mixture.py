"""A step's tokens through routed and shared experts, and back into the streams (spec §4.6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import BFloat16, Float32, Int64
from torch import Tensor

from shoal.ops.addresses import address, float8_addresses, quantized_addresses
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.expert import apply_expert
from shoal.ops.experts_kernels import expert_argument, matrix_addresses
from shoal.ops.hyper_connections import Mix, expand
from shoal.ops.kernels import Kernels
from shoal.ops.quantize import Quantized
from shoal.ops.routing import Routes
from shoal.ops.weights import BlockScaledWeight, Float8Weight


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

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """How the kernels take a routed expert: looked up once, whatever lies there."""
        return matrix_addresses(self.w1, self.w2, self.w3)


@dataclass(frozen=True)
class Dispatch:
    """A step's (token, expert) pairs, expert after expert: expert_ids[i] has the pairs bounds[i] to bounds[i + 1].

    `slots` names each token's pairs in ascending expert id.
    """

    expert_ids: tuple[int, ...]
    bounds: tuple[int, ...]
    tokens: Int64[Tensor, "pairs"]
    weights: Float32[Tensor, "pairs"]
    slots: Int64[Tensor, "tokens active"]

    @classmethod
    def of(cls, routes: Routes) -> "Dispatch":
        """Sorts the pairs by expert, then token."""
        flat = routes.expert_ids.flatten()
        order = flat.argsort(stable=True)
        expert_ids, counts = flat.unique(return_counts=True)
        places = torch.empty_like(order)
        places[order] = torch.arange(order.numel())
        return cls(
            tuple(expert_ids.tolist()),
            (0, *counts.cumsum(0).tolist()),
            order // routes.expert_ids.shape[1],
            routes.weights.flatten()[order],
            places.view(routes.expert_ids.shape).sort(-1).values,
        )


def apply_routed(
    x: Quantized,
    dispatch: Dispatch,
    arrived: Sequence[tuple[int, ExpertWeights]],
    limit: float,
    outputs: BFloat16[Tensor, "pairs dim"],
    arithmetic: Arithmetic,
) -> None:
    """Fills `outputs` for the experts that have arrived, each taken once for all its rows."""
    if arithmetic.kernels is not None:
        _apply_native(x, dispatch, arrived, limit, outputs, arithmetic.kernels)
    else:
        apply_routed_torch(x, dispatch, arrived, limit, outputs, arithmetic)


def apply_routed_torch(
    x: Quantized,
    dispatch: Dispatch,
    arrived: Sequence[tuple[int, ExpertWeights]],
    limit: float,
    outputs: BFloat16[Tensor, "pairs dim"],
    arithmetic: Arithmetic,
) -> None:
    """`apply_routed` in torch, or of the operators that `arithmetic` has."""
    for expert_id, expert in arrived:
        place = dispatch.expert_ids.index(expert_id)
        pairs = slice(dispatch.bounds[place], dispatch.bounds[place + 1])
        rows, weights = x[dispatch.tokens[pairs]], dispatch.weights[pairs]
        outputs[pairs] = apply_expert(rows, expert.w1, expert.w2, expert.w3, weights, limit, arithmetic)


def combine(
    x: Quantized,
    dispatch: Dispatch,
    last: Sequence[tuple[int, ExpertWeights]],
    outputs: BFloat16[Tensor, "pairs dim"],
    shared: ExpertWeights,
    limit: float,
    streams: BFloat16[Tensor, "tokens streams dim"],
    mix: Mix,
    arithmetic: Arithmetic,
) -> tuple[BFloat16[Tensor, "tokens dim"], BFloat16[Tensor, "tokens streams dim"]]:
    """Σ routed experts in ascending id, then the shared one, float32, one rounding; and the streams it returns to.

    `last` are the experts that were still missing in `outputs`: with all of them here, the whole mixture is one call.
    """
    if arithmetic.kernels is not None:
        return _combine_native(x, dispatch, last, outputs, shared, limit, streams, mix, arithmetic.kernels)
    return combine_torch(x, dispatch, last, outputs, shared, limit, streams, mix, arithmetic)


def combine_torch(
    x: Quantized,
    dispatch: Dispatch,
    last: Sequence[tuple[int, ExpertWeights]],
    outputs: BFloat16[Tensor, "pairs dim"],
    shared: ExpertWeights,
    limit: float,
    streams: BFloat16[Tensor, "tokens streams dim"],
    mix: Mix,
    arithmetic: Arithmetic,
) -> tuple[BFloat16[Tensor, "tokens dim"], BFloat16[Tensor, "tokens streams dim"]]:
    """`combine` in torch, or of the operators that `arithmetic` has."""
    apply_routed_torch(x, dispatch, last, limit, outputs, arithmetic)
    total = torch.zeros(streams.shape[0], streams.shape[2])
    for pairs in dispatch.slots.unbind(1):
        total = total + outputs[pairs].float()
    shared_output = apply_expert(x, shared.w1, shared.w2, shared.w3, None, limit, arithmetic)
    y = (total + shared_output.float()).to(torch.bfloat16)
    return y, expand(y, streams, mix, arithmetic)


def _apply_native(
    x: Quantized,
    dispatch: Dispatch,
    arrived: Sequence[tuple[int, ExpertWeights]],
    limit: float,
    outputs: BFloat16[Tensor, "pairs dim"],
    kernels: Kernels,
) -> None:
    if not arrived:
        return
    experts, kept = _expert_arguments(dispatch, arrived, x.codes.shape[1])
    sizes = (x.codes.shape[0], x.codes.shape[1], arrived[0][1].w1.codes.shape[0], limit)
    kernels.native.routed_experts(*quantized_addresses(x), *sizes, experts, address(outputs))
    del kept


def _expert_arguments(
    dispatch: Dispatch, arrived: Sequence[tuple[int, ExpertWeights]], dim: int
) -> tuple[list[tuple[int, ...]], tuple[Tensor, ...]]:
    """How the kernels take experts and their pairs, and the tensors that must live while they run."""
    # A pair's slot is its place.
    tokens, slots = dispatch.tokens.int(), torch.arange(dispatch.tokens.numel(), dtype=torch.int32)
    kept = tokens, dispatch.weights, slots
    first = list(map(address, kept))
    places = {expert_id: place for place, expert_id in enumerate(dispatch.expert_ids)}
    experts = []
    for expert_id, expert in arrived:
        start, end = dispatch.bounds[places[expert_id]], dispatch.bounds[places[expert_id] + 1]
        experts.append(expert_argument(expert, dim, expert.w1.codes.shape[0], start, end, first))
    return experts, kept


def _combine_native(
    x: Quantized,
    dispatch: Dispatch,
    last: Sequence[tuple[int, ExpertWeights]],
    outputs: BFloat16[Tensor, "pairs dim"],
    shared: ExpertWeights,
    limit: float,
    streams: BFloat16[Tensor, "tokens streams dim"],
    mix: Mix,
    kernels: Kernels,
) -> tuple[BFloat16[Tensor, "tokens dim"], BFloat16[Tensor, "tokens streams dim"]]:
    tokens, num_streams, dim = streams.shape
    w1, w2, w3 = shared.w1, shared.w2, shared.w3
    assert isinstance(w1, Float8Weight) and isinstance(w2, Float8Weight) and isinstance(w3, Float8Weight)
    y, returned = torch.empty((tokens, dim), dtype=torch.bfloat16), torch.empty_like(streams)
    slots = dispatch.slots.int()
    experts, kept = _expert_arguments(dispatch, last, dim)
    kernels.native.combine(
        experts,
        *(*quantized_addresses(x), *float8_addresses(w1), *float8_addresses(w2), *float8_addresses(w3)),
        *(address(outputs), address(slots), tokens, slots.shape[1], dim, w1.codes.shape[0], limit),
        *(address(streams), address(mix.post), address(mix.comb), num_streams, address(y), address(returned)),
    )
    del kept
    return y, returned
