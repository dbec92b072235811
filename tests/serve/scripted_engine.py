"""An engine whose events the test writes itself, when it wants."""

import time
from collections.abc import Callable
from typing import cast

from shoal.engine.engine import Engine
from shoal.engine.events import FinishReason, TokenEvent
from shoal.engine.logprobs import TokenLogprobs
from shoal.engine.metrics import EngineMetrics, Meter
from shoal.engine.request import Request, Room
from shoal.engine.ticket import Ticket
from shoal.errors import EngineStoppedError, ShoalError


class ScriptedEngine:
    """Takes requests and does nothing; `refusal` is raised instead, where it is set."""

    def __init__(self) -> None:
        self.room = Room(10_000)
        self.problem: EngineStoppedError | None = None
        self.refusal: ShoalError | None = None
        self.tickets: list[Ticket] = []
        self.drained: list[float] = []

    def submit(self, request: Request) -> Ticket:
        if self.refusal is not None:
            raise self.refusal
        self.tickets.append(Ticket(request))
        return self.tickets[-1]

    def metrics(self) -> EngineMetrics:
        return Meter().snapshot(0, 0, 0, None)

    def drain(self, seconds: float) -> bool:
        self.drained.append(seconds)
        for ticket in self.tickets:
            if not ticket.is_done:
                ticket.put(TokenEvent(None, "deadline", 0.0))
        return True

    def as_engine(self) -> Engine:
        return cast(Engine, self)

    def ticket(self, index: int = 0) -> Ticket:
        """The one that was taken as number `index`, waited for."""
        wait_until(lambda: len(self.tickets) > index)
        return self.tickets[index]


def say(ticket: Ticket, ids: list[int], reason: FinishReason | None = None, logprobs: int | None = None) -> None:
    """Gives `ids` as an answer's next tokens, and its end where there is a reason."""
    for token_id in ids:
        top = None if logprobs is None else TokenLogprobs(-1.0, tuple((each, -2.0) for each in range(logprobs)))
        ticket.put(TokenEvent(token_id, None, 0.0, top))
    if reason is not None:
        ticket.put(TokenEvent(None, reason, 0.0))


def wait_until(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    """Fails where it is not so in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)
