"""A forward that fails takes down only who is to blame."""

from collections.abc import Callable

import pytest
import torch

from shoal.engine.engine import Engine
from shoal.engine.events import TokenEvent
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.engine.ticket import Ticket
from shoal.errors import CacheFullError, CheckpointError, FileChangedError

NEVER = -1


def submit(engine: Engine, *prompts: tuple[int, ...], count: int = 2) -> list[Ticket]:
    return [engine.submit(Request(prompt, SamplingOptions(max_new_tokens=count))) for prompt in prompts]


def read(ticket: Ticket) -> list[int | None]:
    return [event.token_id for event in ticket if isinstance(event, TokenEvent)]


def failing(wrong: int, times: int = 10**9) -> Callable[..., object]:
    """Says 7, but for a batch that holds the token `wrong`, which fails so many times."""
    left = [times]

    def says(batch, caches) -> object:
        if wrong in batch.token_ids.tolist() and left[0]:
            left[0] -= 1
            return FileChangedError("the shard was rewritten")
        return 7

    return says


def test_each_sequence_of_a_batch_that_failed_runs_once_more_alone(script_model) -> None:
    model = script_model(*[failing(6)] * 5)
    good, bad, other = submit(Engine(model, NEVER), (0, 5), (0, 6), (0, 8))
    assert read(good) == [7, 7]
    with pytest.raises(FileChangedError, match="the shard was rewritten"):
        read(bad)
    assert read(other) == [7, 7]
    assert [len(step) for step in model.steps] == [3, 1, 1, 1, 2]


def test_a_failure_that_passes_costs_nobody_an_answer(script_model) -> None:
    says = failing(6, times=1)
    engine = Engine(script_model(*[says] * 9), NEVER)
    assert [read(ticket) for ticket in submit(engine, (0, 5), (0, 6))] == [[7, 7], [7, 7]]


def test_one_that_ran_alone_fails_at_once(script_model) -> None:
    model = script_model(failing(6), 7)
    (bad,) = submit(Engine(model, NEVER), (0, 6))
    with pytest.raises(FileChangedError):
        read(bad)
    assert len(model.steps) == 1


def test_a_cancel_while_others_are_tried_again_loses_no_token(script_model) -> None:
    model, says = script_model(), failing(6, times=1)
    engine = Engine(model, NEVER)
    good, left = submit(engine, (0, 5), (0, 6))

    def cancel_the_other(batch, caches) -> object:
        left.cancel()
        return says(batch, caches)

    model.script = [cancel_the_other, says, says, says]
    assert read(good) == [7, 7]
    assert read(left) == [None]


def test_logits_that_cannot_be_sampled_end_their_own_request_only(script_model) -> None:
    nothing = torch.full((1024,), torch.nan)
    engine = Engine(script_model([7, nothing], [8]), NEVER)
    good, bad = submit(engine, (0, 5), (0, 6))
    assert read(good) == [7, 8]
    with pytest.raises(CheckpointError, match="position 2 are not finite"):
        read(bad)
    assert engine.is_idle and engine.metrics().ended == {"length": 1, "failed": 1}


def test_a_full_cache_sends_the_youngest_back_and_both_answer(script_model) -> None:
    full = CacheFullError("no page is left")
    model = script_model(full, 7, 8, 7, 8)
    engine = Engine(model, NEVER)
    assert [read(ticket) for ticket in submit(engine, (0, 5), (0, 6))] == [[7, 8], [7, 8]]
    assert engine.metrics().preemptions == 1


def test_a_cache_that_is_full_for_one_alone_fails_it(script_model) -> None:
    (ticket,) = submit(Engine(script_model(CacheFullError("no page is left")), NEVER), (0, 5))
    with pytest.raises(CacheFullError):
        read(ticket)


def test_only_those_that_fed_all_they_know_get_logits(script_model) -> None:
    wanted = list[int]()

    def says(batch, caches) -> object:
        wanted.append(len(batch.logit_rows))
        return 7

    (ticket,) = submit(Engine(script_model(*[says] * 4), NEVER, 8), (0,) * 17)
    assert (read(ticket), wanted) == ([7, 7], [0, 0, 1, 1])


def test_an_interrupt_between_forward_and_token_loses_no_token_of_another(counting_model) -> None:
    engine = Engine(counting_model, NEVER)
    first, second = submit(engine, (0, 5), (0, 6), count=4)
    alone = read(submit(Engine(counting_model, NEVER), (0, 6), count=4)[0])
    settle, calls = engine._settle, list[int]()

    def interrupted(outcome: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        settle(outcome)  # type: ignore[arg-type]

    engine._settle = interrupted  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        read(first)
    assert read(second) == alone
