"""Attention in training: one softmax over the window and the compressed entries (spec §4.2)."""

import torch
from torch import Tensor

from training import fake_quantize as fq


def window_keys(kv: Tensor, size: int) -> Tensor:
    """The keys each block of `size` queries may see, the block before and its own: [rows, blocks, 2·size, dim]."""
    rows, length, dim = kv.shape
    blocks = torch.cat((kv.new_zeros(rows, size, dim), kv), 1).unflatten(1, (length // size + 1, size))
    return torch.cat((blocks[:, :-1], blocks[:, 1:]), 2)


def window_mask(blocks: int, size: int) -> Tensor:
    """0 or -inf, [blocks, 1, size, 2·size]: the last `size` positions up to the query's own."""
    t, j = torch.arange(size)[:, None], torch.arange(2 * size)
    outside = ((j > t + size) | (j <= t)).expand(blocks, -1, -1).clone()
    outside[0, :, :size] = True  # before the sequence
    return torch.zeros(outside.shape).masked_fill(outside, -torch.inf)[:, None]


def near_weights(products: Tensor, scale: float, mask: Tensor, sink: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of window keys alone and their total with the sink [heads, 1, 1]; `mask` is 0 or -inf."""
    scores = products * scale + mask
    top = scores.detach().amax(-1, keepdim=True)
    p = (scores - top).exp()
    return fq.bfloat16(p), p.sum(-1, keepdim=True) + (sink - top).exp()


def both_weights(
    near: Tensor, far: Tensor, scale: float, mask: Tensor, barred: Tensor, sink: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of window keys and of entries, and their common total; `mask` is 0 or -inf, `barred` bool."""
    near, far = near * scale + mask, (far * scale).masked_fill(barred, -torch.inf)
    top = torch.maximum(near.detach().amax(-1, keepdim=True), far.detach().amax(-1, keepdim=True))
    p, q = (near - top).exp(), (far - top).exp()
    total = p.sum(-1, keepdim=True) + q.sum(-1, keepdim=True) + (sink - top).exp()
    return fq.bfloat16(p), fq.bfloat16(q), total
