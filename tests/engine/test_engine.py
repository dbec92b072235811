import time
from dataclasses import replace

import pytest
import torch

from shoal.engine.engine import Engine
from shoal.engine.events import TokenEvent
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import CheckpointError, PromptError

EOS = 1
PROMPT = (0, 5, 6)


def run(
    model: object, max_new_tokens: int = 8, prompt: tuple[int, ...] = PROMPT
) -> list[tuple[int | None, str | None]]:
    options = SamplingOptions(max_new_tokens=max_new_tokens)
    events = list(Engine(model, EOS).stream(Request(prompt, options)))
    return [(event.token_id, event.finish_reason) for event in events]


def test_the_prompt_is_one_forward_and_every_token_one_more(script_model) -> None:
    model = script_model(7, 8, 9)
    assert run(model, 3) == [(7, None), (8, None), (9, "length")]
    assert model.chunks == [(0, [0, 5, 6]), (3, [7]), (4, [8])]


def test_ids_that_will_be_fed_are_announced_a_token_before_it_is_given_out(script_model) -> None:
    model, prompt = script_model(7, 8, EOS), (0, list(PROMPT))
    events = Engine(model, EOS).stream(Request(PROMPT, SamplingOptions(max_new_tokens=8)))
    assert (next(events).token_id, model.expected) == (7, [prompt, (3, [7])])
    assert [event.token_id for event in events] == [8, None]
    assert model.expected == [prompt, (3, [7]), (4, [8])]
    assert run(last := script_model(7, 8), 2) and last.expected == [prompt, (3, [7])]


@pytest.mark.parametrize(("chunk", "sizes"), [(1, [1, 1, 1]), (2, [2, 1]), (3, [3]), (9, [3])])
def test_a_long_prompt_is_read_in_chunks(script_model, chunk: int, sizes: list[int]) -> None:
    model, told = script_model(*[7] * len(sizes), 8), list[tuple[int, int]]()
    request = Request(PROMPT, SamplingOptions(max_new_tokens=2))
    events = list(Engine(model, EOS, chunk).stream(request, lambda *progress: told.append(progress)))
    assert [event.token_id for event in events] == [7, 8]
    assert [len(ids) for _, ids in model.chunks] == [*sizes, 1]
    assert [token for _, ids in model.chunks for token in ids] == [*PROMPT, 7]
    assert told == sorted(told) and told[-1] == (3, 3)


def test_the_end_of_sequence_id_ends_the_answer_and_is_not_in_it(script_model) -> None:
    model = script_model(7, EOS)
    assert run(model) == [(7, None), (None, "stop")]
    assert len(model.chunks) == 2


def test_an_answer_may_be_empty(script_model) -> None:
    assert run(script_model(EOS)) == [(None, "stop")]


def test_the_end_of_sequence_id_as_the_last_token_allowed_is_a_stop(script_model) -> None:
    assert run(script_model(7, EOS), 2) == [(7, None), (None, "stop")]


def test_the_context_ends_an_answer_that_wanted_more(script_model) -> None:
    model = script_model(7, 8, context=5)
    assert run(model, 100) == [(7, None), (8, "context")]
    assert run(script_model(7, 8, context=5), 2) == [(7, None), (8, "length")]


def test_a_full_prompt_gives_one_token(script_model) -> None:
    assert run(script_model(7, context=4)) == [(7, "context")]


@pytest.mark.parametrize("prompt", [(), (0, 1024), (0,) * 2048])
def test_a_prompt_that_cannot_run_is_refused_before_the_first_event(script_model, prompt: tuple[int, ...]) -> None:
    model = script_model()
    with pytest.raises(PromptError):
        Engine(model, EOS).stream(Request(prompt))
    assert model.chunks == []


def test_events_come_as_their_steps_end(script_model) -> None:
    model = script_model(7, 8)
    events = Engine(model, EOS).stream(Request(PROMPT))
    assert model.chunks == []
    assert next(events).token_id == 7
    assert len(model.chunks) == 1


def test_an_interrupt_reaches_the_caller_after_what_was_given(script_model) -> None:
    events = Engine(script_model(7, KeyboardInterrupt()), EOS).stream(Request(PROMPT))
    assert next(events).token_id == 7
    with pytest.raises(KeyboardInterrupt):
        next(events)


def test_a_logit_that_is_not_finite_names_the_position(script_model) -> None:
    with pytest.raises(CheckpointError, match="position 3 are not finite"):
        run(script_model(torch.full((1024,), torch.nan)))


def test_draws_go_by_absolute_position(script_model) -> None:
    flat = torch.zeros(1024)
    options = SamplingOptions(temperature=1.0, max_new_tokens=3, seed=11)

    def ids(prompt: tuple[int, ...], count: int) -> list[int | None]:
        request = Request(prompt, replace(options, max_new_tokens=count))
        return [event.token_id for event in Engine(script_model(*[flat] * count), EOS).stream(request)]

    whole = ids(PROMPT, 3)
    assert len(set(whole)) == 3
    assert ids((*PROMPT, whole[0]), 2) == whole[1:]


def test_seconds_are_each_steps_own(script_model) -> None:
    model = script_model(7, 8)
    forward = model.forward

    def slow(batch, caches, on_layer=None):
        time.sleep(0.03 if len(batch.token_ids) > 1 else 0.0)
        return forward(batch, caches)

    model.forward = slow
    events: list[TokenEvent] = []
    for event in Engine(model, EOS).stream(Request(PROMPT, SamplingOptions(max_new_tokens=2))):
        events.append(event)
        time.sleep(0.03)  # the reader's own time is not the step's
    assert events[0].seconds >= 0.03 > events[1].seconds > 0
