"""Attention with a sink over lists of keys, against a plain float64 softmax."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from shoal.ops.sparse_attention import COLUMNS_AT_ONCE, sparse_attention
from shoal.ops.wide import Wide

HEADS, DIM, ROWS = 4, 64, 150
W = Wide()


def inputs(seed: int, tokens: int, columns: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q and keys whose softmax is not flat, lists with absent columns, sinks."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(tokens, HEADS, DIM, generator=generator).to(torch.bfloat16)
    pool = torch.randn(ROWS, DIM, generator=generator).to(torch.bfloat16)
    listed = torch.randint(-1, ROWS, (tokens, columns), generator=generator)
    return q, pool, listed, torch.randn(HEADS, generator=generator)


def plain(q: Tensor, pool: Tensor, columns: Tensor, sink: Tensor) -> Tensor:
    """Float64 throughout: nothing rounded, no running maximum."""
    keys = pool[columns.clamp_min(0)].double()
    weights = (torch.einsum("thd,tkd->thk", q.double(), keys) * DIM**-0.5).exp()
    weights = weights * (columns >= 0)[:, None]
    denominator = weights.sum(-1) + sink.double().exp()
    return torch.einsum("thk,tkd->thd", weights, keys) / denominator[..., None]


@settings(max_examples=15)
@given(st.integers(0, 1000), st.integers(0, COLUMNS_AT_ONCE))
def test_a_list_of_one_block_is_a_softmax_of_rounded_probabilities(seed: int, columns: int) -> None:
    q, pool, listed, sink = inputs(seed, 3, columns)
    found = sparse_attention(q, pool, listed, sink, W).double()
    # A probability is off by at most 2^-8 of itself, and so is the result: 2^-7 and a little.
    keys = pool[listed.clamp_min(0)].double().abs()
    weights = torch.einsum("thd,tkd->thk", q.double(), pool[listed.clamp_min(0)].double()) * DIM**-0.5
    weights = weights.exp() * (listed >= 0)[:, None]
    mass = torch.einsum("thk,tkd->thd", weights, keys) / (weights.sum(-1) + sink.double().exp())[..., None]
    assert ((found - plain(q, pool, listed, sink)).abs() <= mass * 2.0**-6.99).all()


def test_a_longer_list_is_close_to_the_softmax() -> None:
    q, pool, listed, sink = inputs(1, 5, 200)
    found, wanted = sparse_attention(q, pool, listed, sink, W).double(), plain(q, pool, listed, sink)
    assert (found - wanted).norm() / wanted.norm() < 2**-8


@pytest.mark.parametrize("columns", [0, 1, 64, 65, 130])
def test_a_row_that_selected_nothing_is_zero(columns: int) -> None:
    q, pool, listed, sink = inputs(2, 3, columns)
    listed[1] = -1
    found = sparse_attention(q, pool, listed, sink, W)
    assert not found[1].any() and found.isfinite().all()
    assert columns == 0 or found[0].any()


def test_a_row_whose_keys_come_in_the_second_block_is_finite() -> None:
    q, pool, listed, sink = inputs(3, 2, 130)
    listed[:, :COLUMNS_AT_ONCE] = -1
    found = sparse_attention(q, pool, listed, sink, W)
    assert torch.equal(found, sparse_attention(q, pool, listed[:, COLUMNS_AT_ONCE:], sink, W))


def test_absent_columns_at_the_end_change_nothing() -> None:
    q, pool, listed, sink = inputs(4, 3, 40)
    longer = torch.cat((listed, torch.full((3, 100), -1)), dim=1)
    found = sparse_attention(q, pool, listed, sink, W)
    assert torch.equal(sparse_attention(q, pool, longer, sink, W), found)


def test_a_key_listed_twice_counts_twice() -> None:
    q, pool, _, sink = inputs(5, 1, 1)
    sink = torch.full((HEADS,), -math.inf)
    found = sparse_attention(q, pool, torch.tensor([[3, 3, 8]]), sink, W).double()
    wanted = plain(q, pool, torch.tensor([[3, 3, 8]]), sink)
    assert (found - wanted).norm() / wanted.norm() < 2**-8
    once = plain(q, pool, torch.tensor([[3, 8]]), sink)
    assert (once - wanted).norm() / wanted.norm() > 2**-6


def test_one_key_without_a_sink_is_itself() -> None:
    q, pool, _, _ = inputs(6, 1, 1)
    found = sparse_attention(q, pool, torch.tensor([[9]]), torch.full((HEADS,), -math.inf), W)
    assert torch.equal(found[0], pool[9].expand(HEADS, -1))


def test_the_sink_takes_its_share_and_no_scale() -> None:
    q = torch.zeros(1, HEADS, DIM, dtype=torch.bfloat16)
    pool = torch.ones(1, DIM, dtype=torch.bfloat16)
    sink = torch.tensor([0.0, math.log(3.0), -50.0, 50.0])
    found = sparse_attention(q, pool, torch.tensor([[0]]), sink, W)[0, :, 0].tolist()
    assert found[:3] == [0.5, 0.25, 1.0] and found[3] == pytest.approx(math.exp(-50), rel=2**-8)


@pytest.mark.parametrize("columns", [7, 64, 65, 140])
def test_a_row_has_the_same_bits_alone(columns: int) -> None:
    q, pool, listed, sink = inputs(7, 6, columns)
    whole = sparse_attention(q, pool, listed, sink, W)
    for token in range(6):
        one = slice(token, token + 1)
        assert torch.equal(sparse_attention(q[one], pool, listed[one], sink, W), whole[one])


def test_where_rows_lie_in_the_pool_changes_nothing() -> None:
    q, pool, listed, sink = inputs(8, 4, 70)
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    moved = torch.where(listed >= 0, order.argsort()[listed.clamp_min(0)], -1)
    assert torch.equal(sparse_attention(q, pool[order], moved, sink, W), sparse_attention(q, pool, listed, sink, W))
