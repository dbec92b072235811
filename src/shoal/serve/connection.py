"""A connection that waits for a request's head only so long: who sends half of one and stalls holds no place for ever.

What stalls in its body is answered (`body`); before its head is whole there is no request to answer.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def connection_class(head_seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol with that limit, counted from the connection's beginning or from a later head's first byte."""

    class Connection(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_head()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._forget_timer()

        def _watch_head(self) -> None:
            """The timer runs from the first sign of a head to its end, however many pieces it comes in."""
            if self.conn.their_state is not h11.IDLE:
                self._forget_timer()
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(head_seconds, self._let_go)

        def _let_go(self) -> None:
            self._head_timer = None
            self.transport.abort()

        def _forget_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    return Connection
