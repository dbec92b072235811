"""What the tokens of all sequences of a step read of their compressed entries (spec §4.5)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import BFloat16, Bool, Int64
from torch import Tensor

from shoal.ops.addresses import address, quantized_addresses
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.index_scores import select
from shoal.ops.index_selection import CandidateBlocks, IndexSelection
from shoal.ops.indexer_kernels import LARGEST_DIM
from shoal.ops.kernels import Kernels
from shoal.ops.paged_rows import PagedRows, Place, num_rows, place_of
from shoal.ops.quantize import Q4I, Quantized


@dataclass(frozen=True)
class IndexedSequence:
    """A sequence of a step: its `count` tokens, its index keys, and the candidates that restrict it."""

    count: int
    keys: Quantized | PagedRows
    candidates: Bool[Tensor, "count positions"] | None = None


def select_step(
    q: Quantized,
    weights: BFloat16[Tensor, "tokens heads"],
    visible: Int64[Tensor, "tokens"],
    sequences: Sequence[IndexedSequence],
    count: int,
    arithmetic: Arithmetic,
    blocks: CandidateBlocks | None = None,
    wants_scores: bool = False,
) -> list[IndexSelection]:
    """`select` of every sequence, whose rows of q, weights and `visible` follow each other."""
    if arithmetic.kernels is not None:
        return _select_native(q, weights, visible, sequences, count, arithmetic.kernels, blocks, wants_scores)
    return select_step_torch(q, weights, visible, sequences, count, arithmetic, blocks, wants_scores)


def select_step_torch(
    q: Quantized,
    weights: BFloat16[Tensor, "tokens heads"],
    visible: Int64[Tensor, "tokens"],
    sequences: Sequence[IndexedSequence],
    count: int,
    arithmetic: Arithmetic,
    blocks: CandidateBlocks | None = None,
    wants_scores: bool = False,
) -> list[IndexSelection]:
    """`select_step` in torch, or of the operators that `arithmetic` has."""
    found, start = [], 0
    for one in sequences:
        rows = slice(start, start + one.count)
        own, start = (q[rows], one.keys, weights[rows], visible[rows]), rows.stop
        found.append(select(*own, count, arithmetic, one.candidates, blocks, wants_scores))
    return found


def _select_native(
    q: Quantized,
    weights: BFloat16[Tensor, "tokens heads"],
    visible: Int64[Tensor, "tokens"],
    sequences: Sequence[IndexedSequence],
    count: int,
    kernels: Kernels,
    blocks: CandidateBlocks | None,
    wants_scores: bool,
) -> list[IndexSelection]:
    (tokens, heads), dim = weights.shape, 2 * q.codes.shape[2]
    assert q.format is Q4I and dim % Q4I.group == 0 and dim <= LARGEST_DIM, (q.format.name, dim)
    assert q.codes.shape == (tokens, heads, dim // 2) and visible.shape == (tokens,), (q.codes.shape, visible.shape)
    assert weights.dtype == torch.bfloat16 and visible.dtype == torch.int64, (weights.dtype, visible.dtype)
    assert tokens == sum(one.count for one in sequences), (tokens, len(sequences))
    assert blocks is None or blocks.size > 0, blocks
    selected, found, listed, start = torch.empty((tokens, count), dtype=torch.int64), list[IndexSelection](), [], 0
    # What had to be copied, kept until the kernel returns.
    kept: list[Place | Tensor | None] = []
    for one in sequences:
        shape, place = (one.count, num_rows(one.keys)), place_of(one.keys, Q4I, dim)
        assert one.candidates is None or one.candidates.shape == shape, shape
        inside = None if blocks is None else torch.empty(shape, dtype=torch.bool)
        scores = torch.empty(shape, dtype=torch.bfloat16) if wants_scores else None
        candidates = None if one.candidates is None else one.candidates.contiguous()
        kept += place, candidates
        keys = address(place.addresses), place.codes, place.scales, place.shift
        listed.append((*shape, *keys, *map(address, (candidates, inside, scores))))
        found.append(IndexSelection(selected[start : start + one.count], inside, scores))
        start += one.count
    kernels.native.index_select_step(
        listed,
        *(*quantized_addresses(q), address(weights), address(visible), heads, dim, count),
        *((blocks.size, blocks.count) if blocks else (1, 0)),
        address(selected),
    )
    del kept
    return found
