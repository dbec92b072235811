import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine.request import SamplingOptions
from shoal.engine.sampler import Sampler, draw, ranked_weights, uniform
from shoal.errors import CheckpointError

GREEDY = Sampler(SamplingOptions())


def drawn(logits: list[float], num_draws: int, **options: float) -> list[int]:
    sampler, row = Sampler(SamplingOptions(**options)), torch.tensor(logits)
    return [sampler.choose(row, position) for position in range(num_draws)]


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=40))
def test_greedy_is_the_lowest_id_among_equal_maxima(logits: list[int]) -> None:
    assert GREEDY.choose(torch.tensor(logits, dtype=torch.float32), 0) == logits.index(max(logits))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_logit_that_is_not_finite_is_an_error(bad: float, temperature: float) -> None:
    sampler = Sampler(SamplingOptions(temperature=temperature))
    with pytest.raises(CheckpointError, match="position 7 are not finite"):
        sampler.choose(torch.tensor([0.0, bad, 1.0]), 7)


def test_draws_are_pinned_for_ever() -> None:
    # What SHA-256 gives; another value changes every sampled answer that anybody has kept.
    assert uniform(0, 0) == 0.8344336729487916
    assert uniform(2**64 - 1, 5) == 0.29612717467258776


def test_a_draw_is_below_one_and_depends_on_seed_and_position() -> None:
    draws = {uniform(seed, position) for seed in range(30) for position in range(30)}
    assert len(draws) == 900
    assert 0.0 <= min(draws) < 0.01 and 0.99 < max(draws) < 1.0


def test_equal_requests_draw_equal_tokens_and_other_seeds_others() -> None:
    logits = [0.0] * 100
    first = drawn(logits, 20, temperature=1.0, seed=3)
    assert first == drawn(logits, 20, temperature=1.0, seed=3)
    assert first != drawn(logits, 20, temperature=1.0, seed=4)


def test_tokens_are_drawn_as_often_as_their_probability_says() -> None:
    # e^(x/T) of 6 : 3 : 1 at T = 0.5.
    logits = [0.5 * math.log(weight) for weight in (3.0, 1.0, 6.0)]
    num_draws = 4000
    counts = np.bincount(drawn(logits, num_draws, temperature=0.5), minlength=3) / num_draws
    for found, wanted in zip(counts, (0.3, 0.1, 0.6), strict=True):
        assert abs(found - wanted) < 4 * math.sqrt(wanted * (1 - wanted) / num_draws)


def test_top_p_keeps_the_lower_ids_among_equals() -> None:
    assert set(drawn([1.0, 1.0, 1.0, 1.0], 200, temperature=1.0, top_p=0.5)) == {0, 1}


def test_a_tiny_top_p_is_greedy() -> None:
    assert set(drawn([0.0, 0.1, 0.1], 100, temperature=9.0, top_p=1e-300)) == {1}


def test_a_tiny_temperature_is_greedy() -> None:
    assert set(drawn([0.0, 2.0, 1.0], 100, temperature=5e-324)) == {1}


def test_a_draw_takes_its_share_of_the_kept_mass_only() -> None:
    weights = np.array([2.0, 1.0, 1.0])
    # 0.625 of the kept 3 lies in the first rank, of the whole 4 it would not.
    assert draw(weights, 0.75, 0.625) == 0
    # A rank begins where the one before it ends.
    assert draw(np.array([1.0, 1.0]), 1.0, 0.5) == 1


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=12),
    st.integers(1, 8),
    st.integers(0, 31),
)
def test_a_draw_falls_into_the_fewest_ranks_that_reach_the_mass(masses: list[int], eighths: int, f32nds: int) -> None:
    masses = sorted(masses, reverse=True)
    masses[0] += 1
    # Every number here is exact in float64, so that exact fractions are the judge.
    p, fraction = Fraction(eighths, 8), Fraction(f32nds, 32)
    kept = next(k for k in range(1, len(masses) + 1) if sum(masses[:k]) >= p * sum(masses))
    target = fraction * sum(masses[:kept])
    wanted = next(k for k in range(kept) if sum(masses[: k + 1]) > target)
    assert draw(np.array(masses, dtype=np.float64), float(p), float(fraction)) == wanted


@given(st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=50), st.floats(0.05, 20))
def test_weights_are_exponentials_ranked_and_equal_logits_go_by_id(logits: list[float], temperature: float) -> None:
    weights, ids = ranked_weights(torch.tensor(logits), temperature)
    assert ids.tolist() == sorted(range(len(logits)), key=lambda token_id: (-logits[token_id], token_id))
    for weight, token_id in zip(weights, ids, strict=True):
        # The exponential's own bound, and one rounding of its argument, which is at most 2000.
        wanted = math.exp((logits[token_id] - max(logits)) / temperature)
        assert weight == pytest.approx(wanted, rel=2**-40, abs=1e-300)
