"""The compressor's pooling of a group of tokens into one latent (spec §4.4)."""

import torch
from jaxtyping import BFloat16, Float32
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.hyper_connections import ordered_sum


def pool_groups(
    values: Float32[Tensor, "groups ratio dim"], gates: Float32[Tensor, "groups ratio dim"], arithmetic: Arithmetic
) -> BFloat16[Tensor, "groups dim"]:
    """Per channel: softmax of the gates over the group's tokens, weighted sum of the values, one rounding to bf16."""
    if arithmetic.kernels is not None:
        return arithmetic.kernels.pool_groups(values, gates)
    return pool_groups_torch(values, gates, arithmetic)


def pool_groups_torch(
    values: Float32[Tensor, "groups ratio dim"], gates: Float32[Tensor, "groups ratio dim"], arithmetic: Arithmetic
) -> BFloat16[Tensor, "groups dim"]:
    """The formula; the kernel gives its bits under wide arithmetic."""
    return ordered_sum(values * arithmetic.group_softmax(gates), 1).to(torch.bfloat16)
