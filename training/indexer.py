"""The indexer in training: what it selects, and how it learns to select what attention reads (spec §4.5).

No gradient passes a selection. The indexer's scores are pulled towards the attention that every layer its choice binds
would pay to all visible entries. What it reads of the model is detached but for the query latent, and that nearly: a
layer must carry what a later one will look for, and without a gradient from here nothing tells it so.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from shoal.config.schema import ModelConfig

QUERY_GRADIENT = 0.1
"""What reaches the query latent of the indexer's gradient, which is several times the model's own."""


@dataclass(frozen=True)
class Selection:
    """`scores` float32, `barred` bool [rows, length, entries]; `candidates` of what later layers may select."""

    scores: Tensor
    barred: Tensor
    candidates: Tensor | None


def index_layer(
    q: Tensor,
    keys: Tensor,
    weights: Tensor,
    hidden: Tensor,
    layer: int,
    candidates: Tensor | None,
    config: ModelConfig,
    weigh: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Selection:
    """Select for q [rows, length, heads, dim] among keys [rows, entries, dim]; `hidden` bool [length, entries].

    `weigh` is `weighed`, compiled or not.
    """
    products = (q.flatten(1, 2) @ keys.transpose(1, 2)).unflatten(1, q.shape[1:3])
    scores = weigh(products, weights, hidden)
    ranked = scores.detach()
    inside = None
    if layer == config.candidate_source_layer:
        inside = _candidate_positions(ranked, hidden, config)
    elif candidates is not None:
        ranked = ranked.masked_fill(~candidates, -torch.inf)
    return Selection(scores, _barred(ranked, config.index_topk), inside)


def weighed(products: Tensor, weights: Tensor, hidden: Tensor) -> Tensor:
    """Scores of products [rows, length, heads, entries] by weights [rows, length, heads]; -inf where hidden."""
    return (products.relu() * weights[..., None]).sum(2).masked_fill(hidden, -torch.inf)


def gently(x: Tensor) -> Tensor:
    """`x`, to which little of the gradient returns."""
    still = x.detach()
    return still + QUERY_GRADIENT * (x - still)


def _barred(scores: Tensor, count: int) -> Tensor:
    best = scores.topk(min(count, scores.shape[-1]), dim=-1)
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best.indices, best.values > -torch.inf)
    return ~chosen


def _candidate_positions(scores: Tensor, hidden: Tensor, config: ModelConfig) -> Tensor:
    size, entries = config.candidate_block_size, scores.shape[-1]
    best = scores.unflatten(-1, (entries // size, size)).amax(-1)
    newest = ((~hidden).sum(-1) - 1).clamp_min(0) // size
    best = best.scatter(-1, newest.expand(best.shape[0], -1)[..., None], torch.inf)
    chosen = best.topk(min(config.candidate_topk_blocks, best.shape[-1]), dim=-1)
    kept = torch.zeros_like(best, dtype=torch.bool).scatter(-1, chosen.indices, chosen.values > -torch.inf)
    return kept.repeat_interleave(size, dim=-1)


def attention_over(products: Tensor, scale: float, hidden: Tensor) -> Tensor:
    """What a layer pays to each visible entry, heads averaged, [rows, length, entries].

    `products` are of its own queries and entries, unmasked, [rows, blocks, heads, window, entries].
    """
    blocks, window = products.shape[1], products.shape[3]
    barred = hidden.unflatten(0, (blocks, window))[:, None]
    return (products * scale).masked_fill(barred, -1e30).softmax(-1).mean(2).flatten(1, 2)


def index_loss(scores: Tensor, hidden: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of the scores' softmax to `target`, of queries [rows, length] that see two entries or more."""
    logs = scores.masked_fill(hidden, -1e30).log_softmax(-1)
    return -(target * logs).sum(-1).mean()
