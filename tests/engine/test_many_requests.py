"""Thousands of requests that come, go and give up leave nothing behind."""

import gc
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator

import jaxtyping
import pytest

from shoal.engine import scheduler
from shoal.engine.engine import Engine
from shoal.engine.events import TokenEvent
from shoal.engine.kv_room import ByteRoom
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.engine.ticket import Ticket
from shoal.errors import QueueFullError
from watchdog import within

from .conftest import CountingModel, follower

EOS, REQUESTS, CLIENTS, SECONDS = 1, 2000, 10, 100
# Pages of 8 tokens: fewer than what eight of the longest want, so that there are pre-emptions.
ROOM_PAGES = 24


def prompt_of(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.randrange(2, 1000) for _ in range(rng.choice([1, 3, 12, 30])))


def answer(prompt: tuple[int, ...], count: int, vocab_size: int) -> list[int]:
    """What a counting model says to `prompt`."""
    ids = list(prompt)
    while len(ids) < len(prompt) + count and (following := follower(ids[-1], len(ids) - 1, vocab_size)) != EOS:
        ids.append(following)
    return ids[len(prompt) :]


class Client(threading.Thread):
    """Asks one thing after another. A third of its requests are cancelled after some tokens, some are never read."""

    def __init__(self, engine: Engine, seed: int, count: int) -> None:
        super().__init__()
        self.engine, self.rng, self.count = engine, random.Random(seed), count
        self.wrong = list[object]()
        self.unread = list[Ticket]()
        self.refused = 0

    def run(self) -> None:
        for _ in range(self.count):
            prompt, count = prompt_of(self.rng), self.rng.choice([1, 2, 6, 18])
            manner = self.rng.choice(["read", "read", "leave", "cancel", "forget"])
            request = Request(prompt, SamplingOptions(max_new_tokens=count))
            while (ticket := self.submit(request)) is None:
                time.sleep(0.01)
            getattr(self, manner)(ticket, answer(prompt, count, self.engine.model.config.vocab_size))

    def submit(self, request: Request) -> Ticket | None:
        try:
            return self.engine.submit(request)
        except QueueFullError:
            self.refused += 1
            return None

    def read(self, ticket: Ticket, wanted: list[int]) -> None:
        self.compare([event for event in ticket if isinstance(event, TokenEvent)], wanted)

    def leave(self, ticket: Ticket, wanted: list[int]) -> None:
        given = list[TokenEvent]()
        for event in ticket:
            given += [event] if isinstance(event, TokenEvent) else []
            if len(given) > self.rng.randrange(5):
                break
        self.compare(given, wanted[: len(given)])

    def cancel(self, ticket: Ticket, wanted: list[int]) -> None:
        threading.Timer(self.rng.random() / 100, ticket.cancel).start()
        given = [event for event in ticket if isinstance(event, TokenEvent)]
        self.compare(given, wanted[: sum(event.token_id is not None for event in given)])

    def forget(self, ticket: Ticket, wanted: list[int]) -> None:
        self.unread.append(ticket)

    def compare(self, given: list[TokenEvent], wanted: list[int]) -> None:
        ids = [event.token_id for event in given if event.token_id is not None]
        if ids != wanted[: len(ids)] or (given[-1].finish_reason in ("stop", "length") and len(ids) != len(wanted)):
            self.wrong.append((ids, wanted))


def serve(model: CountingModel, count: int, seed: int) -> tuple[Engine, list[Client]]:
    room = ByteRoom(ROOM_PAGES * 10 + 8 * 5, 10, 5, 8)
    engine = Engine(model, EOS, 64, kv_room=room, max_waiting=16)
    engine.start()
    clients = [Client(engine, seed + number, count // CLIENTS) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(SECONDS)
        assert not client.is_alive()
    return engine, clients


@pytest.fixture(autouse=True)
def _no_shape_checks() -> Iterator[None]:
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def objects() -> Counter[str]:
    """How many of each of Shoal's classes there are."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("shoal."))


def test_two_thousand_mixed_requests_leave_room_threads_and_objects_where_they_began(
    counting_model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "RESERVE_TOKENS", 4)
    before, threads = objects(), set(threading.enumerate())
    engine, clients = within(lambda: serve(counting_model, REQUESTS, 1), SECONDS)
    unread = [ticket for client in clients for ticket in client.unread]
    assert within(lambda: engine.drain(SECONDS), SECONDS) and all(ticket.is_done for ticket in unread)
    metrics = engine.metrics()
    assert [client.wrong for client in clients if client.wrong] == []
    assert metrics.refused == sum(client.refused for client in clients)
    assert metrics.submitted == REQUESTS == sum(metrics.ended.values())
    assert metrics.preemptions > 10 and metrics.ended["cancelled"] > 100
    assert (metrics.waiting, metrics.running, metrics.kv_used_nbytes) == (0, 0, 0)
    del engine, clients, unread, metrics
    while set(threading.enumerate()) - threads:
        time.sleep(0.01)  # timers
    assert objects() == before
