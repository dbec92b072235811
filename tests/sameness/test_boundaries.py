"""Around window, twice window, top-k limit and candidate limit: chunked = whole, picks = brute force.

One prompt passes every limit: its rows are the last rows of the shorter prompts (`test_chunks`).
"""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from shoal.config.schema import ModelConfig
from shoal.ops.index_scores import ABSENT

# window 32; top-k 48 entries, of 1 or 2 tokens each; 8 candidate blocks of 8 entries.
LIMITS = (32, 48, 64, 96)
LENGTH = 100
RATIOS = {2: 2, 4: 2, 6: 1, 8: 1}


def sizes_between(places: Sequence[int]) -> list[int]:
    ends = [*sorted(places), LENGTH]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


@pytest.fixture(scope="module")
def recorded(driver: Any) -> dict[str, Tensor]:
    """All internals of the whole prompt in one forward."""
    internals: dict[str, Tensor] = {}
    driver.advance([driver.ids[:LENGTH]], [driver.backbone.new_cache()], internals.__setitem__)
    return internals


def test_a_prompt_cut_at_and_beside_every_limit_is_the_whole_prompt(driver: Any) -> None:
    cuts = [
        sizes_between([limit + offset for limit in LIMITS for offset in (-1, 0, 1)]),
        sizes_between([limit + 1 for limit in LIMITS]),
        sizes_between([limit - 1 for limit in LIMITS[:3]]),
    ]
    cuts = cuts[:1] if driver.is_slow else cuts
    for run, sizes in zip(driver.lockstep([driver.prompt(cut) for cut in cuts]), cuts, strict=True):
        assert run.differences(driver.whole(LENGTH)) == [], sizes


def best_of(scores: list[float], count: int) -> list[int]:
    ranked = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    picked = sorted(i for i in ranked[:count] if scores[i] > -math.inf)
    return picked + [ABSENT] * (min(count, len(scores)) - len(picked))


@pytest.mark.parametrize("layer", RATIOS)
def test_every_row_picks_what_brute_force_picks(layer: int, recorded: dict[str, Tensor], config: ModelConfig) -> None:
    scores, picks = recorded[f"L{layer}.index_score"], recorded[f"L{layer}.topk"]
    assert scores.shape[1] > config.index_topk
    for row, (values, found) in enumerate(zip(scores.tolist(), picks.tolist(), strict=True)):
        assert found == best_of(values, config.index_topk), row


@pytest.mark.parametrize("layer", [2, 4, 6])
def test_a_row_reaches_exactly_the_complete_groups(layer: int, recorded: dict[str, Tensor]) -> None:
    scores = recorded[f"L{layer}.index_score"]
    visible = (torch.arange(LENGTH) + 1) // RATIOS[layer]
    assert torch.equal(scores > -torch.inf, torch.arange(scores.shape[1]) < visible[:, None])


def test_every_row_keeps_the_best_candidate_blocks(recorded: dict[str, Tensor], config: ModelConfig) -> None:
    block, count = config.candidate_block_size, config.candidate_topk_blocks
    scores, kept = recorded["L6.index_score"].float(), recorded["L6.candidates"]
    for row in range(LENGTH):
        best = [scores[row, start : start + block].max().item() for start in range(0, LENGTH, block)]
        best[row // block] = math.inf
        chosen = [b for b in best_of(best, count) if b != ABSENT]
        assert kept[row].nonzero().flatten().tolist() == [
            position for position in range(LENGTH) if position // block in chosen
        ]


def test_the_newest_half_filled_block_is_kept_where_blocks_are_dropped(recorded: dict[str, Tensor]) -> None:
    kept = recorded["L6.candidates"]
    assert kept.diagonal().all()
    assert not kept[-1].all()


def test_a_reindex_layer_reaches_only_candidates(recorded: dict[str, Tensor]) -> None:
    reached = recorded["L8.index_score"] > -torch.inf
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    assert torch.equal(reached, recorded["L6.candidates"] & visible)
