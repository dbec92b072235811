"""What a step's sequences select: each as if it were alone; the native kernel against its twin."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.index_scores import select
from shoal.ops.index_selection import CandidateBlocks, IndexSelection
from shoal.ops.kernels import available_isas
from shoal.ops.native import Native
from shoal.ops.quantize import Quantized, quantize_q4i
from shoal.ops.step_selection import IndexedSequence, select_step, select_step_torch
from shoal.ops.wide import Wide

HEADS, DIM, COUNT = 3, 64, 7
BLOCKS = CandidateBlocks(4, 3)
ARITHMETICS = [Wide(), *(Native(isa, threads) for isa in available_isas() for threads in (1, 2))]
Parts = tuple[Quantized, Tensor, Tensor, list[IndexedSequence]]
SIZES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40)), min_size=1, max_size=6)


def step(seed: int, sizes: list[tuple[int, int]], has_candidates: bool) -> Parts:
    """(tokens, keys) of each sequence."""
    generator = torch.Generator().manual_seed(seed)

    def values(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(torch.bfloat16)

    sequences, visible = [], []
    for tokens, keys in sizes:
        candidates = torch.rand((tokens, keys), generator=generator) < 0.7 if has_candidates else None
        sequences.append(IndexedSequence(tokens, quantize_q4i(values(keys, DIM)), candidates))
        visible.append(torch.randint(0, keys + 1, (tokens,), generator=generator))
    total = sum(tokens for tokens, _ in sizes)
    return quantize_q4i(values(total, HEADS, DIM)), values(total, HEADS), torch.cat(visible), sequences


def same(one: IndexSelection, other: IndexSelection) -> bool:
    pairs = (one.selected, other.selected), (one.candidates, other.candidates), (one.scores, other.scores)
    return all((a is None and b is None) or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)


@pytest.mark.parametrize("arithmetic", ARITHMETICS, ids=lambda each: each.name)
@settings(max_examples=15)
@given(st.integers(0, 1000), SIZES, st.booleans(), st.booleans())
def test_sequences_of_a_step_select_what_they_select_alone(
    arithmetic: Arithmetic, seed: int, sizes: list[tuple[int, int]], has_candidates: bool, is_source: bool
) -> None:
    q, weights, visible, sequences = step(seed, sizes, has_candidates)
    blocks = BLOCKS if is_source else None
    together = select_step(q, weights, visible, sequences, COUNT, arithmetic, blocks, wants_scores=is_source)
    twin = select_step_torch(q, weights, visible, sequences, COUNT, Wide(), blocks, wants_scores=is_source)
    start = 0
    for found, wanted, one in zip(together, twin, sequences, strict=True):
        rows = slice(start, start + one.count)
        alone = select(
            *(q[rows], one.keys, weights[rows], visible[rows], COUNT, arithmetic, one.candidates, blocks),
            wants_scores=is_source,
        )
        assert same(found, alone) and same(found, wanted)
        start = rows.stop


def test_a_step_is_one_call() -> None:
    arithmetic = Native()
    q, weights, visible, sequences = step(1, [(1, 9), (3, 0), (1, 40)], False)
    calls = arithmetic.native.native.calls
    select_step(q, weights, visible, sequences, COUNT, arithmetic)
    assert arithmetic.native.native.calls == calls + 1
