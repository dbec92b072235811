"""Index scores, selected positions and candidate blocks against brute force (spec §4.5)."""

import math
from collections.abc import Callable
from fractions import Fraction

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from shoal.ops.index_scores import ABSENT, candidate_positions, index_scores, select_positions
from shoal.ops.wide import Wide

W = Wide()
# Few distinct values: ties are the rule.
SCORE = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 1.0, 2.0])
ROW = st.lists(SCORE, min_size=1, max_size=40)


def brute_force_selection(scores: list[float], count: int) -> list[int]:
    ranked = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    picked = sorted(i for i in ranked[:count] if scores[i] > -math.inf)
    return picked + [ABSENT] * (count - len(picked))


def brute_force_candidates(scores: list[float], visible: int, block: int, count: int) -> list[bool]:
    best = {}
    for start in range(0, len(scores), block):
        best[start] = max(scores[start : start + block])
    if visible:
        best[(visible - 1) // block * block] = math.inf
    ranked = sorted(best, key=lambda start: (-best[start], start))
    kept = {start for start in ranked[:count] if best[start] > -math.inf}
    return [position // block * block in kept for position in range(len(scores))]


@given(ROW, st.integers(1, 48))
def test_a_selection_is_the_best_positions_ascending(scores: list[float], count: int) -> None:
    found = select_positions(torch.tensor([scores], dtype=torch.bfloat16), count, W)
    assert found.tolist() == [brute_force_selection(scores, count)]


@given(ROW, st.integers(1, 9), st.integers(1, 9), st.data())
def test_candidates_are_the_best_blocks(scores: list[float], block: int, count: int, data: st.DataObject) -> None:
    visible = data.draw(st.integers(0, len(scores)))
    scores = scores[:visible] + [-math.inf] * (len(scores) - visible)
    rows = torch.tensor([scores], dtype=torch.bfloat16)
    found = candidate_positions(rows, torch.tensor([visible]), block, count, W)
    assert found.tolist() == [brute_force_candidates(scores, visible, block, count)]


def test_the_newest_half_filled_block_is_always_a_candidate() -> None:
    scores = torch.full((1, 20), 5.0, dtype=torch.bfloat16)
    scores[0, 16:] = -3.0
    scores[0, 18:] = -torch.inf
    kept = candidate_positions(scores, torch.tensor([18]), 8, 2, W)[0]
    assert kept.nonzero().flatten().tolist() == [*range(8), *range(16, 20)]


def test_a_row_that_sees_nothing_selects_nothing() -> None:
    nothing = torch.full((2, 5), -torch.inf, dtype=torch.bfloat16)
    assert select_positions(nothing, 3, W).tolist() == [[ABSENT] * 3] * 2
    assert not candidate_positions(nothing, torch.tensor([0, 0]), 8, 2, W).any()


def test_no_positions_select_nothing() -> None:
    empty = torch.zeros((2, 0), dtype=torch.bfloat16)
    assert select_positions(empty, 3, W).tolist() == [[ABSENT] * 3] * 2


def test_equal_scores_go_to_the_lower_position() -> None:
    scores = torch.ones((1, 100), dtype=torch.bfloat16)
    assert select_positions(scores, 48, W).tolist() == [list(range(48))]


def random_inputs(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(6, 4, 16, generator=generator).to(torch.bfloat16)
    keys = torch.randn(9, 16, generator=generator).to(torch.bfloat16)
    return q, keys, torch.randn(6, 4, generator=generator).to(torch.bfloat16)


def test_a_score_rounds_where_the_release_does(nearest_bfloat16: Callable[[Fraction], float]) -> None:
    q, keys, weights = random_inputs(1)
    found = index_scores(q, keys, weights, torch.full((6,), 9), W)
    for token in range(6):
        for position in range(9):
            total = torch.tensor(0.0)
            for head in range(4):
                pairs = zip(q[token, head].tolist(), keys[position].tolist(), strict=True)
                product = nearest_bfloat16(sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0)))
                weight = Fraction(weights[token, head].item())
                total = total + nearest_bfloat16(Fraction(max(product, 0.0)) * weight)
            assert found[token, position].item() == nearest_bfloat16(Fraction(total.item()))


def test_positions_from_visible_on_are_unreachable() -> None:
    q, keys, weights = random_inputs(2)
    visible = torch.tensor([0, 1, 2, 5, 8, 9])
    scores = index_scores(q, keys, weights, visible, W)
    assert torch.equal(scores == -torch.inf, torch.arange(9) >= visible[:, None])


def test_a_score_depends_on_its_own_token_and_key_only() -> None:
    q, keys, weights = random_inputs(3)
    whole = index_scores(q, keys, weights, torch.full((6,), 9), W)
    for token in range(6):
        one = slice(token, token + 1)
        alone = index_scores(q[one], keys[:5], weights[one], torch.tensor([5]), W)
        assert torch.equal(alone, whole[one, :5])
