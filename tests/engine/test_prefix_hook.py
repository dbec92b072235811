"""What the engine asks of a prefix cache, and what it does with the answers."""

import pytest

from fake_prefix import FakePrefix
from shoal.engine.engine import Engine
from shoal.engine.events import PromptEvent, TokenEvent
from shoal.engine.prefix_protocol import SMALLEST_SHARE
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.engine.ticket import Ticket
from shoal.model.cache import SequenceCache

NEVER = -1


@pytest.fixture
def prefix(counting_model) -> FakePrefix:
    def copy(cache: SequenceCache) -> SequenceCache:
        twin = counting_model.new_cache()
        twin.commit(cache.length)
        return twin

    return FakePrefix(copy)


def submit(engine: Engine, prompt: tuple[int, ...], count: int = 2, marks: tuple[int, ...] = ()) -> Ticket:
    return engine.submit(Request(prompt, SamplingOptions(max_new_tokens=count), marks))


def read(ticket: Ticket) -> list[int]:
    return [event.token_id for event in ticket if isinstance(event, TokenEvent) and event.token_id is not None]


def fed(model) -> list[tuple[int, int]]:
    """(first position, tokens) of every chunk."""
    return [(position, len(ids)) for position, ids in model.chunks]


def test_chunks_are_cut_where_a_length_is_worth_keeping(counting_model, prefix: FakePrefix) -> None:
    prefix.stride = 64
    engine = Engine(counting_model, NEVER, 48, prefix=prefix)
    prompt = tuple(range(2, 102))
    answer = read(submit(engine, prompt, marks=(10,)))
    assert fed(counting_model) == [(0, 10), (10, 48), (58, 6), (64, 35), (99, 1), (100, 1)]
    assert sorted(map(len, prefix.kept)) == [10, 64, 99, 101]
    assert max(prefix.kept, key=len) == (*prompt, answer[0])  # the last token was never fed


def test_a_repeated_prompt_computes_what_was_not_kept_and_says_so(counting_model, prefix: FakePrefix) -> None:
    engine = Engine(counting_model, NEVER, prefix=prefix)
    prompt = tuple(range(2, 52))
    first = read(submit(engine, prompt))
    counting_model.steps.clear()
    ticket = submit(engine, prompt)
    events = list(ticket)
    assert [event.token_id for event in events if isinstance(event, TokenEvent)] == first
    assert fed(counting_model) == [(49, 1), (50, 1)]
    assert ticket.cached_tokens == 49
    assert [event for event in events if isinstance(event, PromptEvent)] == [PromptEvent(50, 50, 49)]
    assert (engine.metrics().cached_tokens, engine.metrics().prompt_tokens) == (49, 100)


def test_the_next_turn_of_a_conversation_computes_only_what_is_new(counting_model, prefix: FakePrefix) -> None:
    engine = Engine(counting_model, NEVER, prefix=prefix)
    prompt = tuple(range(2, 52))
    answer = read(submit(engine, prompt, count=8))
    counting_model.steps.clear()
    ticket = submit(engine, (*prompt, *answer, 1, 9, 9, 9), count=1)
    read(ticket)
    assert ticket.cached_tokens == 50 + 7
    assert sum(count for _, count in fed(counting_model)) == 1 + 4


def test_an_answer_that_was_cancelled_is_kept_too(counting_model, prefix: FakePrefix) -> None:
    engine = Engine(counting_model, NEVER, prefix=prefix)
    events = engine.stream(Request((5, 6), SamplingOptions(max_new_tokens=50)))
    given = [next(events).token_id for _ in range(3)]
    events.close()
    assert (5, 6, *given[:2]) in prefix.kept


def test_the_same_prompt_asked_for_together_is_computed_once(counting_model, prefix: FakePrefix) -> None:
    engine = Engine(counting_model, NEVER, 40, prefix=prefix)
    prompt = tuple(range(2, 102))
    tickets = [submit(engine, prompt) for _ in range(5)]
    answers = [read(ticket) for ticket in tickets]
    assert answers == answers[:1] * 5
    assert [ticket.cached_tokens for ticket in tickets] == [0, 99, 99, 99, 99]
    assert engine.metrics().computed_tokens == 100 + 4 * 1 + 5 * 1


def test_others_pass_those_who_wait_for_a_prompt(counting_model, prefix: FakePrefix) -> None:
    engine = Engine(counting_model, NEVER, 40, prefix=prefix, max_running=2)
    first, second = (submit(engine, tuple(range(2, 102))) for _ in range(2))
    other = submit(engine, tuple(range(200, 220)), count=1)
    engine.step()
    engine.step()
    assert other.is_done and not first.is_done
    assert read(second) == read(first)


def test_prompts_that_share_little_do_not_wait(counting_model, prefix: FakePrefix) -> None:
    engine = Engine(counting_model, NEVER, prefix=prefix)
    shared = tuple(range(2, 2 + SMALLEST_SHARE - 1))
    for last in (500, 600):
        submit(engine, (*shared, last, last), marks=(len(shared),))
    engine.step()
    assert len(counting_model.steps[0]) == 2


def test_one_whose_leader_is_cancelled_goes_on_alone(counting_model, prefix: FakePrefix) -> None:
    engine = Engine(counting_model, NEVER, 40, prefix=prefix)
    first, second = (submit(engine, tuple(range(2, 102))) for _ in range(2))
    engine.step()
    first.cancel()
    assert len(read(second)) == 2
    assert second.cached_tokens == 0


def test_a_preempted_sequence_goes_on_from_what_is_kept_and_its_request_still_counts_once(
    counting_model, prefix: FakePrefix
) -> None:
    engine = Engine(counting_model, NEVER, prefix=prefix)
    ticket = submit(engine, tuple(range(2, 52)), count=6)
    for _ in range(4):
        engine.step()
    engine._let_go(engine._scheduler.requeue(engine._scheduler.running[0]))
    counting_model.steps.clear()
    alone = Engine(counting_model, NEVER)
    assert read(ticket) == (again := read(submit(alone, tuple(range(2, 52)), count=6))) and len(again) == 6
    assert counting_model.chunks[0][0] == 49
    assert ticket.cached_tokens == 0
    assert engine.metrics().prompt_tokens == 50
