"""Attention of each token over its own list of keys, with a sink (spec §4.2 steps 3 to 6)."""

from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Float32, Int64
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.index_scores import ABSENT
from shoal.ops.paged_rows import PagedRows
from shoal.ops.quantize import Quantized
from shoal.ops.rope import rotate
from shoal.ops.rotation import Rotation

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


@dataclass(frozen=True)
class WindowKeys:
    """Q8 keys of a sequence's last positions and of the chunk that begins at `position`.

    The ring holds the last min(position, window) positions before the chunk, each at slot position mod window.
    """

    ring: Quantized
    own: Quantized
    position: int


@dataclass(frozen=True)
class SelectedEntries:
    """Compressed entries in Q4c, and for each token those it reads: ascending, ABSENT filling the end."""

    entries: Quantized | PagedRows
    selected: Int64[Tensor, "tokens count"]


def attend(
    q: BFloat16[Tensor, "tokens heads dim"],
    window: WindowKeys,
    compressed: SelectedEntries | None,
    sink: Float32[Tensor, "heads"],
    rotation: Rotation,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens heads dim"]:
    """Attention of a chunk over its canonical key lists (spec §4.2 step 3), rotated back by `rotation` at the end.

    A list is the `window` last positions up to the token's own, ascending, absent ones at the end; then the selected
    entries. Whether a key is read from the ring or the chunk changes nothing.
    """
    if arithmetic.kernels is not None:
        return arithmetic.kernels.attention(q, window, compressed, sink, rotation)
    return attend_torch(q, window, compressed, sink, rotation, arithmetic)


def attend_torch(
    q: BFloat16[Tensor, "tokens heads dim"],
    window: WindowKeys,
    compressed: SelectedEntries | None,
    sink: Float32[Tensor, "heads"],
    rotation: Rotation,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens heads dim"]:
    """`attend` by building a pool of keys and each token's columns of it."""
    size = window.ring.codes.shape[0]
    held = min(window.position, size)
    slots = torch.arange(window.position - held, window.position) % size
    pool = [window.ring[slots].dequantize(), window.own.dequantize()]
    columns = [_window_columns(window.position, q.shape[0], held, size)]
    if compressed is not None:
        selected, absent = compressed.selected, compressed.selected == ABSENT
        wanted = selected[~absent].unique()
        pool.append(compressed.entries[wanted].dequantize())
        columns.append((torch.searchsorted(wanted, selected) + held + q.shape[0]).masked_fill(absent, ABSENT))
    out = sparse_attention(q, torch.cat(pool), torch.cat(columns, dim=1), sink, arithmetic)
    return rotate(out, rotation.inverse())


def _window_columns(position: int, tokens: int, held: int, window: int) -> Int64[Tensor, "tokens window"]:
    """Pool rows of each query's window, ascending, absent ones at the end. Row 0 is position `position − held`."""
    queries = torch.arange(position, position + tokens)[:, None]
    keys = (queries - window + 1).clamp_min(0) + torch.arange(window)
    return (keys - (position - held)).masked_fill(keys > queries, ABSENT)
