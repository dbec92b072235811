import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine.sampler import Sampler, draw, kept_ranks, ranked_weights, uniform
from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import CheckpointError, OptionError

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


def test_ranks_are_cut_by_count_and_by_likelihood() -> None:
    weights = np.array([1.0, 0.5, 0.5, 0.1, 0.0])
    assert [kept_ranks(weights, top_k, 0.0) for top_k in (0, 1, 3, 9)] == [5, 1, 3, 5]
    assert [kept_ranks(weights, 0, min_p) for min_p in (0.05, 0.1, 0.5, 0.51, 1.0)] == [4, 4, 3, 1, 1]
    assert kept_ranks(weights, 2, 0.1) == 2


def test_top_k_and_min_p_are_kept_to() -> None:
    logits = [math.log(weight) for weight in (4.0, 3.0, 2.0, 1.0)]
    assert set(drawn(logits, 300, temperature=1.0, top_k=2)) == {0, 1}
    assert set(drawn(logits, 300, temperature=1.0, min_p=0.49)) == {0, 1, 2}
    # Of what top-k keeps, 4 of 7 reach a half.
    assert set(drawn(logits, 300, temperature=1.0, top_k=2, top_p=0.5)) == {0}


def chosen(logits: list[float], count: int, prompt: tuple[int, ...] = (), **options: Any) -> list[int]:
    sampler = Sampler(SamplingOptions(**options), prompt, len(logits))
    return [sampler.choose(torch.tensor(logits), position) for position in range(count)]


def test_penalties_count_what_was_drawn() -> None:
    assert chosen([3.0, 2.5, 0.0], 4, frequency_penalty=0.4) == [0, 0, 1, 0]
    assert chosen([3.0, 2.5, 2.4], 4, presence_penalty=0.55) == [0, 1, 0, 0]
    # What the prompt holds counts for repetition only; a negative logit grows more negative.
    assert chosen([3.0, 2.0, -1.0], 2, prompt=(0,), repetition_penalty=2.0) == [1, 0]
    assert chosen([-1.0, -1.5], 2, prompt=(0,), repetition_penalty=2.0) == [1, 0]
    assert chosen([3.0, 2.5], 2, prompt=(0, 0, 0), frequency_penalty=9.0) == [0, 1]


def test_a_bias_bans_and_forces_and_its_token_must_exist() -> None:
    assert chosen([3.0, 2.0, 1.0], 2, logit_bias={0: -100.0}) == [1, 1]
    assert chosen([3.0, 2.0, 1.0], 1, logit_bias={2: 100.0}) == [2]
    with pytest.raises(OptionError, match="names token 3, expected 0 to 2"):
        Sampler(SamplingOptions(logit_bias={3: 1.0}), (), 3)


def test_logprobs_are_the_models_own_whatever_is_penalised() -> None:
    logits = torch.tensor([math.log(weight) for weight in (1.0, 6.0, 3.0)])
    options = SamplingOptions(logprobs=2, logit_bias={1: -100.0}, temperature=0.1)
    found = Sampler(options, (), 3).logprobs(logits, 0)
    assert found is not None
    assert math.exp(found.logprob) == pytest.approx(0.1, rel=1e-6)
    assert [(token_id, round(math.exp(logprob), 6)) for token_id, logprob in found.top] == [(1, 0.6), (2, 0.3)]
    assert GREEDY.logprobs(logits, 0) is None
