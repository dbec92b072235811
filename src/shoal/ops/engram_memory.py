"""Engram's memory into the streams: projection of the rows, and the gate (spec §6.3)."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Bool
from torch import Tensor

from shoal.ops.addresses import address, float8_addresses, quantized_addresses
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.engram_gate import gate_streams
from shoal.ops.engram_rows import gather_rows
from shoal.ops.kernels import Kernels
from shoal.ops.quantize import Quantized
from shoal.ops.weights import Float8Weight


@dataclass(frozen=True)
class EngramWeights:
    """Projection of the rows to a key per stream and a shared value, and the two norm weights of the gate."""

    wkv: Float8Weight
    q_weight: BFloat16[Tensor, "streams dim"]
    k_weight: BFloat16[Tensor, "streams dim"]


def apply_memory(
    rows: Quantized,
    streams: BFloat16[Tensor, "tokens streams dim"],
    weights: EngramWeights,
    image_mask: Bool[Tensor, "tokens"] | None,
    eps: float,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens streams dim"]:
    """h + gate·value for every stream, keys and value being wkv·Q8 of a token's table rows end to end.

    `rows` are the table rows in Q8 layout, [tokens · columns, width]; those inside an image change nothing.
    """
    if arithmetic.kernels is not None:
        return _apply_native(rows, streams, weights, image_mask, eps, arithmetic.kernels)
    return apply_memory_torch(rows, streams, weights, image_mask, eps, arithmetic)


def apply_memory_torch(
    rows: Quantized,
    streams: BFloat16[Tensor, "tokens streams dim"],
    weights: EngramWeights,
    image_mask: Bool[Tensor, "tokens"] | None,
    eps: float,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens streams dim"]:
    """`apply_memory` in torch, or of the operators that `arithmetic` has."""
    tokens, num_streams = streams.shape[:2]
    gathered = gather_rows(rows, None, arithmetic)
    memory = Quantized(gathered.codes.reshape(tokens, -1), gathered.scales.reshape(tokens, -1), gathered.format)
    projected = arithmetic.quantized_linear(memory, weights.wkv)
    parts = projected.unflatten(1, (num_streams + 1, -1))
    key, value = parts[:, :num_streams], parts[:, num_streams]
    return gate_streams(streams, key, value, weights.q_weight, weights.k_weight, image_mask, eps, arithmetic)


def _apply_native(
    rows: Quantized,
    streams: BFloat16[Tensor, "tokens streams dim"],
    weights: EngramWeights,
    image_mask: Bool[Tensor, "tokens"] | None,
    eps: float,
    kernels: Kernels,
) -> BFloat16[Tensor, "tokens streams dim"]:
    (tokens, num_streams, dim), (pairs, width) = streams.shape, rows.codes.shape
    rows, streams = Quantized(rows.codes.contiguous(), rows.scales.contiguous(), rows.format), streams.contiguous()
    returned = torch.empty_like(streams)
    kernels.native.engram_memory(
        *(*quantized_addresses(rows), *float8_addresses(weights.wkv)),
        *map(address, (streams, weights.q_weight, weights.k_weight, image_mask)),
        *(tokens, pairs // tokens, width, num_streams, dim, eps, address(returned)),
    )
    return returned
