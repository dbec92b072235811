"""Attention of each token over its own list of keys, with a sink (spec §4.2 step 5)."""

import torch
from jaxtyping import BFloat16, Float32, Int64
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic

# Probabilities are rounded to bf16 against the running maximum of this many columns, as the released kernel does.
COLUMNS_AT_ONCE = 64
LOWEST_MAXIMUM = -1e30


def sparse_attention(
    q: BFloat16[Tensor, "tokens heads dim"],
    pool: BFloat16[Tensor, "rows dim"],
    columns: Int64[Tensor, "tokens columns"],
    sink: Float32[Tensor, "heads"],
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens heads dim"]:
    """softmax(q·k·dim^−½ ∪ sink)·k over the pool rows that `columns` names (−1 = absent), keys being values too.

    The sink is an unscaled logit without a value: it joins the denominator last and never the maximum. A row without
    any key is zero. Accumulator and denominator are rescaled by e^(old − new maximum) at each block of 64 columns.
    """
    tokens, heads, dim = q.shape
    scale = torch.tensor(dim**-0.5, dtype=torch.float32)
    maximum = torch.full((tokens, heads), LOWEST_MAXIMUM)
    denominator: Tensor = torch.zeros((tokens, heads))
    accumulator: Tensor = torch.zeros((tokens, heads, dim))
    for start in range(0, columns.shape[1], COLUMNS_AT_ONCE):
        block = columns[:, start : start + COLUMNS_AT_ONCE]
        present = (block >= 0)[:, None]
        keys = pool[block.clamp_min(0)]
        scores = (arithmetic.attention_scores(q, keys) * scale).masked_fill(~present, -torch.inf)
        highest = torch.maximum(maximum, scores.amax(-1))
        kept = arithmetic.exp(maximum - highest)
        p = arithmetic.exp(scores - highest[..., None])
        denominator = denominator * kept + arithmetic.total(p)
        accumulator = accumulator * kept[..., None] + arithmetic.weighted_values(p.to(torch.bfloat16), keys)
        maximum = highest
    denominator = denominator.float() + arithmetic.exp(sink - maximum)
    return (accumulator.float() / denominator[..., None]).to(torch.bfloat16)
