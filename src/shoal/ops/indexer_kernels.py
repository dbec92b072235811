"""The native indexer for tensors: scores, selection and candidates of one sequence in one call."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import BFloat16, Bool, Int64
from torch import Tensor

from shoal.ops.addresses import address
from shoal.ops.index_selection import CandidateBlocks, IndexSelection
from shoal.ops.paged_rows import PagedRows, num_rows, place_of
from shoal.ops.quantize import Q4I, Quantized

if TYPE_CHECKING:
    from shoal._native import Kernels as Native

LARGEST_DIM = 1024


class IndexerKernels:
    """Operators of the indexer family."""

    native: "Native"

    def index_select(
        self,
        q: Quantized,
        keys: Quantized | PagedRows,
        weights: BFloat16[Tensor, "tokens heads"],
        visible: Int64[Tensor, "tokens"],
        count: int,
        candidates: Bool[Tensor, "tokens positions"] | None = None,
        blocks: CandidateBlocks | None = None,
        wants_scores: bool = False,
    ) -> IndexSelection:
        """`select_torch` under wide arithmetic, for finite weights and scales other than 255."""
        tokens, heads = weights.shape
        positions, dim = num_rows(keys), 2 * q.codes.shape[2]
        shape = tokens, positions
        assert q.format is Q4I, q.format.name
        assert dim % Q4I.group == 0 and dim <= LARGEST_DIM, dim
        assert q.codes.shape == (tokens, heads, dim // 2), (q.codes.shape, tokens, heads, dim)
        assert q.scales.shape == (tokens, heads, dim // Q4I.group), (q.scales.shape, tokens, heads, dim)
        assert weights.dtype == torch.bfloat16 and visible.dtype == torch.int64, (weights.dtype, visible.dtype)
        assert visible.shape == (tokens,), (visible.shape, tokens)
        assert candidates is None or (candidates.shape == shape and candidates.dtype == torch.bool), shape
        assert blocks is None or blocks.size > 0, blocks
        selected = torch.empty((tokens, count), dtype=torch.int64)
        inside = None if blocks is None else torch.empty(shape, dtype=torch.bool)
        scores = torch.empty(shape, dtype=torch.bfloat16) if wants_scores else None
        q_codes, q_scales, weights = q.codes.contiguous(), q.scales.contiguous(), weights.contiguous()
        place, visible = place_of(keys, Q4I, dim), visible.contiguous()
        candidates = None if candidates is None else candidates.contiguous()
        self.native.index_select(
            q_codes.data_ptr(),
            q_scales.data_ptr(),
            weights.data_ptr(),
            place.addresses.data_ptr(),
            place.codes,
            place.scales,
            place.shift,
            visible.data_ptr(),
            address(candidates),
            tokens,
            heads,
            dim,
            positions,
            count,
            selected.data_ptr(),
            blocks.size if blocks else 1,
            blocks.count if blocks else 0,
            address(inside),
            address(scores),
        )
        return IndexSelection(selected, inside, scores)
