"""Indexer scores and what they select: compressed positions and candidate blocks (spec §4.5)."""

import torch
from jaxtyping import BFloat16, Bool, Int64
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.index_selection import CandidateBlocks, IndexSelection
from shoal.ops.paged_rows import PagedRows
from shoal.ops.quantize import Quantized

ABSENT = -1


def select(
    q: Quantized,
    keys: Quantized | PagedRows,
    weights: BFloat16[Tensor, "tokens heads"],
    visible: Int64[Tensor, "tokens"],
    count: int,
    arithmetic: Arithmetic,
    candidates: Bool[Tensor, "tokens positions"] | None = None,
    blocks: CandidateBlocks | None = None,
    wants_scores: bool = False,
) -> IndexSelection:
    """The `count` best positions below `visible` (and in `candidates`), for Q4i q [tokens, heads, dim] and keys.

    With `blocks`, the candidate positions too. Nothing of size tokens x heads x positions is held by the kernel.
    """
    if arithmetic.kernels is not None:
        return arithmetic.kernels.index_select(q, keys, weights, visible, count, candidates, blocks, wants_scores)
    return select_torch(q, keys, weights, visible, count, arithmetic, candidates, blocks, wants_scores)


def select_torch(
    q: Quantized,
    keys: Quantized | PagedRows,
    weights: BFloat16[Tensor, "tokens heads"],
    visible: Int64[Tensor, "tokens"],
    count: int,
    arithmetic: Arithmetic,
    candidates: Bool[Tensor, "tokens positions"] | None = None,
    blocks: CandidateBlocks | None = None,
    wants_scores: bool = False,
) -> IndexSelection:
    """Scores, restricted to candidates; then the candidates of later layers and the selection."""
    scores = index_scores(q.dequantize(), keys.dequantize(), weights, visible, arithmetic)
    if candidates is not None:
        scores = scores.masked_fill(~candidates, -torch.inf)
    inside = None if blocks is None else candidate_positions(scores, visible, blocks.size, blocks.count, arithmetic)
    return IndexSelection(select_positions(scores, count, arithmetic), inside, scores if wants_scores else None)


def index_scores(
    q: BFloat16[Tensor, "tokens heads dim"],
    keys: BFloat16[Tensor, "positions dim"],
    weights: BFloat16[Tensor, "tokens heads"],
    visible: Int64[Tensor, "tokens"],
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens positions"]:
    """Σ_h w_h·relu(q_h·k), rounded as released: dot to bf16, weighted to bf16, heads summed in float32 ascending.

    Positions from `visible` on are −inf.
    """
    products = arithmetic.index_products(q, keys).relu() * weights[..., None]
    # From zero: heads that are all -0 add up to +0, as released.
    scores = torch.zeros((q.shape[0], keys.shape[0]))
    for head in products.unbind(1):
        scores = scores + head.float()
    positions = torch.arange(keys.shape[0])
    return scores.to(torch.bfloat16).masked_fill(positions >= visible[:, None], -torch.inf)


def select_positions(
    scores: BFloat16[Tensor, "tokens positions"], count: int, arithmetic: Arithmetic
) -> Int64[Tensor, "tokens count"]:
    """The `count` best reachable positions of each row, ascending, −1 filling the end.

    A position scored −inf is unreachable. Under wide arithmetic equal scores go to the lower position.
    """
    kept = min(count, scores.shape[1])
    best = arithmetic.top_indices(scores, kept)
    reachable = scores.gather(1, best) > -torch.inf
    last = scores.shape[1]
    ascending = best.masked_fill(~reachable, last).sort(-1).values
    padded = torch.full((scores.shape[0], count), ABSENT)
    padded[:, :kept] = ascending.masked_fill(ascending == last, ABSENT)
    return padded


def candidate_positions(
    scores: BFloat16[Tensor, "tokens positions"],
    visible: Int64[Tensor, "tokens"],
    block: int,
    count: int,
    arithmetic: Arithmetic,
) -> Bool[Tensor, "tokens positions"]:
    """The positions inside the `count` best blocks of `block` positions; a block scores its best member.

    The block of the newest visible position, half filled or not, is always kept. A block wholly −inf never is.
    """
    tokens, positions = scores.shape
    blocks = -(-positions // block)
    padded = scores.new_full((tokens, blocks * block), -torch.inf)
    padded[:, :positions] = scores
    best = padded.unflatten(1, (blocks, block)).amax(-1)
    seen = visible > 0
    newest = (visible - 1).clamp_min(0) // block
    best[seen, newest[seen]] = torch.inf
    chosen = arithmetic.top_indices(best, min(count, blocks))
    kept = torch.zeros_like(best, dtype=torch.bool).scatter(1, chosen, best.gather(1, chosen) > -torch.inf)
    return kept.repeat_interleave(block, dim=1)[:, :positions]
