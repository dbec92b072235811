"""A request that an engine has taken: its events as they come, and the way to end it early.

Events are kept until they are read, so a reader that never reads holds nobody up: a request has an end, and of the
prompt's progress only the latest is kept.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

from shoal.engine.events import Event, PromptEvent, TokenEvent
from shoal.engine.request import Request
from shoal.errors import ShoalError


class Ticket:
    """Written by the engine, read by one caller, from any two threads.

    A reader that leaves the iteration early cancels the request.
    """

    def __init__(
        self,
        request: Request,
        step: Callable[["Ticket"], None] | None = None,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> None:
        """`step` lets a reader that finds nothing run the engine itself, where no thread of its own does."""
        self.request = request
        self.cached_tokens = 0
        self.is_cancelled = False
        self._step, self._on_cancel = step, on_cancel
        self._events: deque[Event] = deque()
        self._problem: ShoalError | None = None
        self._is_done = False
        self._changed = threading.Condition()
        self._wake: Callable[[], object] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the last event, or the problem, has been written."""
        return self._is_done

    @property
    def is_ready(self) -> bool:
        """Whether a reader would not wait: there is an event, or the end."""
        return bool(self._events) or self._is_done

    def cancel(self) -> None:
        """Ends the request before its next step; one more event, `cancelled`, may come. Nothing if it has ended."""
        if not self._is_done and not self.is_cancelled:
            self.is_cancelled = True
            self._on_cancel()

    def put(self, event: Event) -> None:
        """The engine's: one more event. The one with a finish reason is the last."""
        with self._changed:
            if self._is_done:
                return
            if isinstance(event, PromptEvent) and self._events and isinstance(self._events[-1], PromptEvent):
                self._events.pop()
            self._events.append(event)
            self._is_done = isinstance(event, TokenEvent) and event.finish_reason is not None
            self._tell()

    def fail(self, problem: ShoalError) -> None:
        """The engine's: the request cannot go on; whoever reads gets `problem` behind the events."""
        with self._changed:
            if not self._is_done:
                self._problem, self._is_done = problem, True
                self._tell()

    def take(self) -> list[Event]:
        """What has come since the last look, without waiting."""
        with self._changed:
            events = list(self._events)
            self._events.clear()
        return events

    def __iter__(self) -> Iterator[Event]:
        """The events, each waited for."""
        try:
            while True:
                if self._step is not None and not self.is_ready:
                    self._step(self)
                with self._changed:
                    while not self.is_ready and self._step is None:
                        self._changed.wait()
                    event = self._events.popleft() if self._events else None
                    is_over = event is None and self._is_done
                if event is not None:
                    yield event
                elif is_over:
                    break
        finally:
            self.cancel()
        if self._problem is not None:
            raise self._problem

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The same, for the event loop that runs the reader."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        with self._changed:
            self._wake = lambda: loop.call_soon_threadsafe(ready.set)
        try:
            while True:
                # Cleared before looking: what comes after the look sets it again.
                ready.clear()
                with self._changed:
                    events, is_over = list(self._events), self._is_done
                    self._events.clear()
                for event in events:
                    yield event
                if is_over:
                    break
                if not events:
                    await (ready.wait() if self._step is None else loop.run_in_executor(None, self._step, self))
        finally:
            self._wake = None
            self.cancel()
        if self._problem is not None:
            raise self._problem

    def _tell(self) -> None:
        self._changed.notify_all()
        wake = self._wake
        if wake is None:
            return
        try:
            wake()
        except RuntimeError:
            # The reader's loop is closed, so nobody reads any more.
            self._wake, self.is_cancelled = None, True
