"""A request that an engine has taken: its events as they come, and the way to end it early.

Events are kept until they are read, so a reader that never reads holds nobody up: a request has an end.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

from shoal.engine.events import Event, TokenEvent
from shoal.engine.request import Request
from shoal.errors import ShoalError


class Ticket:
    """Written by the engine, read by one caller, from any two threads."""

    def __init__(self, request: Request, step: Callable[[], None] | None = None) -> None:
        """`step` lets a reader that finds nothing run the engine itself, where no thread of its own does."""
        self.request = request
        self.cached_tokens = 0
        self.is_cancelled = False
        self._step = step
        self._events: deque[Event] = deque()
        self._problem: ShoalError | None = None
        self._is_done = False
        self._changed = threading.Condition()
        self._wake: Callable[[], None] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the last event, or the problem, has been written."""
        return self._is_done

    def cancel(self) -> None:
        """Ends the request before its next step; one more event, `cancelled`, may come. Nothing if it has ended."""
        self.is_cancelled = True

    def put(self, event: Event) -> None:
        """The engine's: one more event. The one with a finish reason is the last."""
        with self._changed:
            self._events.append(event)
            self._is_done = isinstance(event, TokenEvent) and event.finish_reason is not None
            self._tell()

    def fail(self, problem: ShoalError) -> None:
        """The engine's: the request cannot go on; whoever reads gets `problem` behind the events."""
        with self._changed:
            if not self._is_done:
                self._problem, self._is_done = problem, True
                self._tell()

    def __iter__(self) -> Iterator[Event]:
        """The events, each waited for. A reader that leaves cancels the request."""
        try:
            while True:
                with self._changed:
                    while not self._events and not self._is_done and self._step is None:
                        self._changed.wait()
                    if self._events:
                        event = self._events.popleft()
                    elif self._is_done:
                        break
                    else:
                        event = None
                if event is None:
                    assert self._step is not None
                    self._step()
                else:
                    yield event
        finally:
            self.cancel()
        if self._problem is not None:
            raise self._problem

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The same, for an event loop."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(ready.set)
        try:
            while True:
                ready.clear()
                with self._changed:
                    events, is_done = list(self._events), self._is_done
                    self._events.clear()
                for event in events:
                    yield event
                if is_done:
                    break
                if not events:
                    await ready.wait()
        finally:
            self._wake = None
            self.cancel()
        if self._problem is not None:
            raise self._problem

    def _tell(self) -> None:
        self._changed.notify_all()
        if self._wake is not None:
            self._wake()
