"""Masks at the sampler and in the engine: what is allowed, what stays as it was, and when an answer is whole."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Bool
from torch import Tensor

from shoal.engine.engine import Engine
from shoal.engine.events import TokenEvent
from shoal.engine.request import Request
from shoal.engine.sampler import Sampler
from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import OptionError

VOCAB = 12


class Listed:
    """Lets the next of `sets` of tokens come, then only `end`; anything where a set is None."""

    def __init__(self, sets: Sequence[set[int] | None], end: int = 0, size: int = VOCAB) -> None:
        self.sets, self.end, self.size = list(sets), end, size
        self.taken: list[int] = []

    def mask(self) -> Bool[Tensor, "vocab"] | None:
        allowed = self.sets[len(self.taken)] if len(self.taken) < len(self.sets) else {self.end}
        if allowed is None:
            return None
        if not allowed:
            raise OptionError("no token can come")
        mask = torch.zeros(self.size, dtype=torch.bool)
        mask[sorted(allowed)] = True
        return mask

    def accept(self, token_id: int) -> None:
        self.taken.append(token_id)

    @property
    def is_done(self) -> bool:
        return len(self.taken) >= len(self.sets)


LOGITS = st.lists(st.floats(-8, 8, width=32), min_size=VOCAB, max_size=VOCAB)
ALLOWED = st.sets(st.integers(0, VOCAB - 1), min_size=1)


@given(LOGITS, ALLOWED, st.integers(0, 99), st.sampled_from([0.0, 0.7, 1.5]), st.sampled_from([0.0, 0.2]))
def test_only_what_is_allowed_is_drawn_whatever_else_is_wanted(
    logits: list[float], allowed: set[int], seed: int, temperature: float, min_p: float
) -> None:
    forbidden = min(set(range(VOCAB)) - allowed, default=0)
    options = SamplingOptions(
        temperature=temperature,
        seed=seed,
        min_p=min_p,
        top_p=0.9,
        logit_bias={forbidden: 100.0},
        repetition_penalty=1.2,
    )
    sampler = Sampler(options, (1, 2), VOCAB, lambda: Listed([allowed]))
    assert sampler.choose(torch.tensor(logits), 5) in allowed


@given(LOGITS, ALLOWED, st.integers(0, 99))
@settings(max_examples=40)
def test_the_same_token_comes_where_the_mask_allows_the_one_that_is_greedy_or_all(
    logits: list[float], allowed: set[int], seed: int
) -> None:
    row = torch.tensor(logits)
    for options in (SamplingOptions(), SamplingOptions(temperature=1.5, seed=seed)):
        free = Sampler(options, (), VOCAB).choose(row, 3)
        assert Sampler(options, (), VOCAB, lambda: Listed([set(range(VOCAB))])).choose(row, 3) == free
        assert Sampler(options, (), VOCAB, lambda: Listed([None])).choose(row, 3) == free
    greedy = Sampler(SamplingOptions(), (), VOCAB).choose(row, 3)
    found = Sampler(SamplingOptions(), (), VOCAB, lambda: Listed([allowed | {greedy}])).choose(row, 3)
    assert found == greedy


def test_logprobs_are_the_models_own() -> None:
    row = torch.zeros(VOCAB)
    row[3] = 4.0
    free = Sampler(SamplingOptions(logprobs=2), (), VOCAB)
    held = Sampler(SamplingOptions(logprobs=2), (), VOCAB, lambda: Listed([{5}]))
    token_id = held.choose(row, 0)
    assert token_id == 5 and held.logprobs(row, 5) == free.logprobs(row, 5)


def test_each_answer_has_a_constraint_of_its_own(script_model) -> None:  # type: ignore[no-untyped-def]
    model = script_model(7, 7, 7, 7)
    made: list[Listed] = []

    def make() -> Listed:
        made.append(Listed([{4}, {5}], size=model.config.vocab_size))
        return made[-1]

    engine = Engine(model, 1)
    for _ in range(2):
        events = [event for event in engine.submit(Request((2, 3), constraint=make)) if isinstance(event, TokenEvent)]
        # Whole with its second token: nothing is computed to hear that it ends.
        assert [(event.token_id, event.finish_reason) for event in events] == [(4, None), (5, "stop")]
    assert [each.taken for each in made] == [[4, 5], [4, 5]]


def test_an_answer_that_nothing_can_go_on_fails_alone(script_model) -> None:  # type: ignore[no-untyped-def]
    engine = Engine(script_model(7, 7, 1), 1)
    size = engine.model.config.vocab_size
    ticket = engine.submit(Request((2,), constraint=lambda: Listed([{4}, set()], size=size)))
    with pytest.raises(OptionError, match="no token can come"):
        list(ticket)
    assert [event.finish_reason for event in engine.stream(Request((2,)))] == ["stop"]
