"""Hyper-connections for training: streams [streams, tokens, dim], coefficients with the tokens last (spec §4.1)."""

from typing import NamedTuple

import torch
from torch import Tensor

EPS = 1e-6
ITERATIONS = 20


class Mix(NamedTuple):
    """pre and post [streams, tokens], comb [from, to, tokens]."""

    pre: Tensor
    post: Tensor
    comb: Tensor


def mix(streams: Tensor, fn: Tensor, scale: Tensor, base: Tensor) -> Mix:
    """The coefficients of one half layer. Tokens last: a division by sums over four then runs along memory."""
    count, _, dim = streams.shape
    norm = torch.rsqrt(streams.square().mean((0, 2)) + 1e-20)
    u = fn[:, :dim] @ streams[0].T
    for c in range(1, count):
        u = u + fn[:, c * dim : (c + 1) * dim] @ streams[c].T
    u = u * norm
    pre = torch.sigmoid(u[:count] * scale[0] + base[:count, None]) + EPS
    post = 2 * torch.sigmoid(u[count : 2 * count] * scale[1] + base[count : 2 * count, None])
    comb = (u[2 * count :] * scale[2] + base[2 * count :, None]).unflatten(0, (count, count)).softmax(1) + EPS
    comb = comb / (comb.sum(0, keepdim=True) + EPS)
    for _ in range(ITERATIONS - 1):
        comb = comb / (comb.sum(1, keepdim=True) + EPS)
        comb = comb / (comb.sum(0, keepdim=True) + EPS)
    return Mix(pre, post, comb)


def collapse(streams: Tensor, pre: Tensor) -> Tensor:
    """Σ_c pre[c]·h[c]: [tokens, dim]."""
    return (streams * pre[..., None]).sum(0)


def expand(x: Tensor, streams: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """post[c]·x + Σ_j comb[j, c]·h[j]: the streams after a sublayer's output."""
    return post[..., None] * x + (comb[..., None] * streams[:, None]).sum(0)
