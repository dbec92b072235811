"""The engine with a thread of its own: cancelling, deadlines, closing, and what may never hang."""

import gc
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from shoal.engine.engine import Engine
from shoal.engine.events import PromptEvent, TokenEvent
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.engine.ticket import Ticket
from shoal.errors import EngineStoppedError, OptionError, PromptError, QueueFullError
from watchdog import within

EOS, NEVER = 1, -1
PROMPT = (0, 5, 6)
SECONDS = 30


def request(count: int = 5, prompt: tuple[int, ...] = PROMPT, **more: object) -> Request:
    return Request(prompt, SamplingOptions(max_new_tokens=count), **more)  # type: ignore[arg-type]


def read(ticket: Ticket) -> list[tuple[int | None, str | None]]:
    events = within(lambda: list(ticket), SECONDS)
    return [(event.token_id, event.finish_reason) for event in events if isinstance(event, TokenEvent)]


def reason(ticket: Ticket) -> str | None:
    return read(ticket)[-1][1]


class Gate:
    """Holds a forward between two of its layers."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def hold(self, *_: object) -> int:
        self.reached.set()
        assert self.opened.wait(SECONDS)
        return 7


@pytest.fixture
def started(counting_model) -> Iterator[Callable[..., Engine]]:
    engines = list[Engine]()

    def start(model: object = counting_model, **options: object) -> Engine:
        engine = Engine(model, NEVER, **options)  # type: ignore[arg-type]
        engine.start()
        engines.append(engine)
        return engine

    yield start
    for engine in engines:
        within(engine.close, SECONDS)


def test_requests_of_several_threads_are_answered_as_one_alone(started, counting_model) -> None:
    engine = started()
    prompts = [(0, number, 3) for number in range(2, 22)]
    found = dict[tuple[int, ...], list[tuple[int | None, str | None]]]()

    def ask(prompt: tuple[int, ...]) -> None:
        found[prompt] = read(engine.submit(request(9, prompt)))

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    for prompt in prompts:
        alone = Engine(counting_model, NEVER).stream(request(9, prompt))
        assert found[prompt] == [(event.token_id, event.finish_reason) for event in alone]


def test_running_requests_share_their_steps(started, script_model) -> None:
    gate, model = Gate(), script_model()
    model.script = [gate.hold, [7, 7, 7], [8, 8, 8]]
    engine = started(model)
    first = engine.submit(request(3))
    assert gate.reached.wait(SECONDS)
    others = [engine.submit(request(2)) for _ in range(2)]
    gate.opened.set()
    assert [read(ticket) for ticket in (first, *others)] == [
        [(7, None), (7, None), (8, "length")],
        [(7, None), (8, "length")],
        [(7, None), (8, "length")],
    ]
    assert [len(step) for step in model.steps] == [1, 3, 3]


def test_no_more_run_than_may_and_the_next_starts_when_one_ends(started, counting_model) -> None:
    engine = started(max_running=2)
    tickets = [engine.submit(request(count)) for count in (3, 6, 4, 2)]
    assert [len(read(ticket)) for ticket in tickets] == [3, 6, 4, 2]
    assert max(len(step) for step in counting_model.steps) == 2


def test_the_queue_has_a_limit_and_a_cancelled_request_leaves_its_place(started, script_model) -> None:
    gate = Gate()
    engine = started(script_model(gate.hold, *[7] * 9), max_running=1, max_waiting=2)
    running = engine.submit(request(1))
    assert gate.reached.wait(SECONDS)
    waiting = [engine.submit(request(1)) for _ in range(2)]
    with pytest.raises(QueueFullError, match="2 requests wait already, expected fewer than 2"):
        engine.submit(request(1))
    waiting[0].cancel()
    last = engine.submit(request(1))
    gate.opened.set()
    assert [reason(ticket) for ticket in (running, *waiting, last)] == ["length", "cancelled", "length", "length"]
    assert engine.metrics().refused == 1


@pytest.mark.parametrize("when", ["waiting", "prompt", "decode"])
def test_a_request_is_cancelled_at_any_moment(started, script_model, when: str) -> None:
    gate = Gate()
    script = {"waiting": [gate.hold, 7], "prompt": [gate.hold, 7], "decode": [7, gate.hold, 7]}[when]
    engine = started(script_model(*script), max_running=1)
    ticket = engine.submit(request(5))
    assert gate.reached.wait(SECONDS)
    victim = engine.submit(request(5)) if when == "waiting" else ticket
    victim.cancel()
    if when == "waiting":
        ticket.cancel()
    gate.opened.set()
    assert read(victim) == [*([(7, None)] if when == "decode" else []), (None, "cancelled")]
    assert read(engine.submit(request(1))) == [(7, "length")]
    assert engine.metrics().kv_used_nbytes == 0


def test_a_forward_that_nobody_waits_for_ends_between_two_layers(started, script_model) -> None:
    gate, model = Gate(), script_model()
    layers = list[int]()
    model.script = [gate.hold, 7]
    forward = model.forward

    def slow(batch, caches, on_layer):
        return forward(batch, caches, on_layer=lambda done: (layers.append(done), on_layer(done)))

    model.forward = slow
    engine = started(model)
    tickets = [engine.submit(request())]
    assert gate.reached.wait(SECONDS)
    tickets[0].cancel()
    gate.opened.set()
    assert read(tickets[0]) == [(None, "cancelled")]
    assert layers == [1]
    assert engine.metrics().abandoned_steps == 1


def test_a_forward_with_one_that_is_wanted_goes_on(started, script_model) -> None:
    gate, model = Gate(), script_model()
    model.script = [7, gate.hold, 7]
    engine = started(model, max_running=2)
    tickets = [engine.submit(request(3)) for _ in range(2)]
    assert gate.reached.wait(SECONDS)
    tickets[0].cancel()
    gate.opened.set()
    assert {reason(ticket) for ticket in tickets} == {"cancelled", "length"}
    assert engine.metrics().abandoned_steps == 0


def test_a_deadline_ends_a_request_that_runs_and_one_that_waits(started, script_model) -> None:
    gate, model = Gate(), script_model()
    model.script = [7, gate.hold, 7, 7]
    engine = started(model, max_running=1)
    running, waiting = (engine.submit(request(9, deadline_seconds=0.2)) for _ in range(2))
    assert gate.reached.wait(SECONDS)
    time.sleep(0.25)
    gate.opened.set()
    assert read(running) == [(7, None), (None, "deadline")]
    assert read(waiting) == [(None, "deadline")]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_deadline_that_is_no_time_is_refused(counting_model, seconds: float) -> None:
    with pytest.raises(OptionError, match="`deadline_seconds` is"):
        Engine(counting_model, NEVER).submit(request(deadline_seconds=seconds))


def test_what_cannot_run_is_refused_in_the_callers_thread(started) -> None:
    engine = started()
    with pytest.raises(PromptError):
        engine.submit(Request(()))
    with pytest.raises(OptionError, match="`logit_bias` names token 5000"):
        engine.submit(Request(PROMPT, SamplingOptions(logit_bias={5000: 1.0})))
    assert len(read(engine.submit(request(2)))) == 2


def test_a_reader_that_never_reads_holds_nobody_up(started) -> None:
    engine = started(max_running=2)
    unread = [engine.submit(request(500)) for _ in range(4)]
    assert len(read(engine.submit(request(50)))) == 50
    assert len(read(unread[0])) == 500


def test_closing_ends_every_request_at_once_and_refuses_more(started, script_model) -> None:
    gate = Gate()
    engine = started(script_model(gate.hold), max_running=1)
    tickets = [engine.submit(request()) for _ in range(3)]
    assert gate.reached.wait(SECONDS)
    closing = threading.Thread(target=engine.close)
    closing.start()
    while not engine._is_closed:
        time.sleep(0.001)
    gate.opened.set()
    closing.join(SECONDS)
    for ticket in tickets:
        with pytest.raises(EngineStoppedError, match="was closed before the request ended"):
            read(ticket)
    with pytest.raises(EngineStoppedError, match="is closed"):
        engine.submit(request())
    within(engine.close, SECONDS)
    assert engine.is_idle and "shoal-engine" not in {thread.name for thread in threading.enumerate()}


def test_draining_lets_requests_end_and_refuses_more(started) -> None:
    engine = started()
    ticket = engine.submit(request(100))
    assert within(lambda: engine.drain(SECONDS), SECONDS)
    assert len(read(ticket)) == 100
    with pytest.raises(EngineStoppedError, match="shutting down"):
        engine.submit(request())


def test_draining_cuts_what_does_not_end_in_time(started, script_model) -> None:
    gate, model = Gate(), script_model()
    model.script = [7, gate.hold]
    engine = started(model)
    ticket = engine.submit(request(100))
    assert gate.reached.wait(SECONDS)
    threading.Timer(0.1, gate.opened.set).start()
    assert not within(lambda: engine.drain(0.02), SECONDS)
    assert read(ticket) == [(7, None), (None, "deadline")]


def test_an_engine_without_a_thread_drains_too(counting_model) -> None:
    engine = Engine(counting_model, NEVER)
    tickets = [engine.submit(request(4)) for _ in range(3)]
    assert engine.drain(SECONDS)
    assert [len(read(ticket)) for ticket in tickets] == [4, 4, 4]


def test_an_error_of_the_program_ends_everybody_by_name_and_hangs_nobody(started, script_model) -> None:
    gate = Gate()
    engine = started(script_model(gate.hold, ZeroDivisionError("by zero")), max_running=1)
    tickets = [engine.submit(request()) for _ in range(3)]
    assert gate.reached.wait(SECONDS)
    assert engine.problem is None
    gate.opened.set()
    for ticket in tickets:
        with pytest.raises(EngineStoppedError, match="the engine stopped: ZeroDivisionError: by zero"):
            read(ticket)
    assert isinstance(engine.problem, EngineStoppedError)
    assert isinstance(engine.problem.__cause__, ZeroDivisionError)
    with pytest.raises(EngineStoppedError, match="ZeroDivisionError"):
        engine.submit(request())
    assert engine.is_idle
    assert within(lambda: engine.drain(SECONDS), SECONDS)


def test_progress_is_told_with_what_was_cached(started) -> None:
    events = within(lambda: list(started().submit(request(1))), SECONDS)
    told = [event for event in events if isinstance(event, PromptEvent)]
    assert told[-1] == PromptEvent(3, 3, 0)


def test_without_a_thread_a_request_that_is_left_is_let_go_at_once(counting_model) -> None:
    engine = Engine(counting_model, NEVER)
    events = engine.stream(request(50))
    next(events)
    assert engine.metrics().running == 1
    del events
    gc.collect()
    assert engine.is_idle


def test_a_stream_that_is_dropped_unread_leaves_nothing_to_do(counting_model) -> None:
    engine = Engine(counting_model, NEVER)
    engine.stream(request(50))
    assert engine.is_idle and counting_model.steps == []


def test_two_readers_without_a_thread_share_the_steps(counting_model) -> None:
    engine = Engine(counting_model, NEVER)
    tickets = [engine.submit(request(200)) for _ in range(2)]
    found = list[int]()
    readers = [threading.Thread(target=lambda each=each: found.append(len(read(each)))) for each in tickets]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(SECONDS)
    assert found == [200, 200]
    assert len(counting_model.steps) == 200


def test_what_is_counted(started) -> None:
    engine = started()
    assert read(engine.submit(request(4)))[-1][1] == "length"
    ticket = engine.submit(request(1000))
    events = within(lambda: iter(ticket), SECONDS)
    while not isinstance(next(events), TokenEvent):
        pass
    ticket.cancel()
    assert within(lambda: engine.drain(SECONDS), SECONDS)
    metrics = engine.metrics()
    assert (metrics.submitted, metrics.ended, metrics.prompt_tokens) == (2, {"length": 1, "cancelled": 1}, 6)
    assert metrics.first_token_seconds.count + metrics.token_seconds.count == metrics.generated_tokens
    assert metrics.computed_tokens == metrics.step_tokens.total == 3 + 3 + metrics.token_seconds.count
    assert metrics.steps == metrics.step_seconds.count == metrics.step_sequences.count
    assert (metrics.waiting, metrics.running, metrics.queue_seconds.count) == (0, 0, 2)
