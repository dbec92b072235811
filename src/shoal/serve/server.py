"""The process that serves: it listens at once, loads beside that, and ends without cutting anybody short."""

import asyncio
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from shoal.errors import ShoalError
from shoal.serve.app import create_app
from shoal.serve.connection import connection_class
from shoal.serve.guard import MOST_HEADER_NBYTES
from shoal.serve.request_log import Say
from shoal.serve.served import Served, ServedModel

Load = Callable[[], ServedModel]
_IDLE_SECONDS = 75
# What is left to answer, once the engine has ended what ran.
_LAST_SECONDS = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """Ends at SIGINT or SIGTERM: no new requests, running ones have `shutdown_seconds`; a second signal cuts them.

    Either way their clients are told, and what is kept of prefixes is written. A third signal ends the process.
    """

    def __init__(self, served: Served, say: Say | None) -> None:
        seconds = served.options.shutdown_seconds
        super().__init__(
            uvicorn.Config(
                create_app(served, say),
                http=connection_class(served.options.limits.head_seconds),
                loop="asyncio",
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level=logging.WARNING,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=2 * MOST_HEADER_NBYTES,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=math.ceil(seconds + _LAST_SECONDS),
            )
        )
        self.served = served
        self._got_signal = self._is_cut = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes the signals, and does not raise them again at the end: to end was their meaning.

        They are given back unless one came: a further one must not kill what writes the caches after this.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items() if not self._got_signal else ():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first ends the server; the second what still runs; the third the process, for whoever cannot wait."""
        if self._is_cut:
            os._exit(128 + sig)
        if self._got_signal:
            self.cut()
        self._got_signal = True
        self.stop()

    def stop(self) -> None:
        """Ends the server, from any thread."""
        self.served.is_draining = True
        self.should_exit = True

    def cut(self) -> None:
        """Ends what a stopped server still waits for, at once; takes no lock, so that a signal's handler may."""
        self._is_cut = True
        if self.served.is_open:
            self.served.model.engine.cut()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets what runs end while the connections are still there, then closes those."""
        draining = asyncio.create_task(self._drain())
        await super().shutdown(sockets)
        await draining

    async def _drain(self) -> None:
        if self.served.is_open:
            await asyncio.to_thread(self.served.model.engine.drain, self.served.options.shutdown_seconds)
        # All answers have their ends now. Who does not read the last of one is waited for this long.
        asyncio.get_running_loop().call_later(_LAST_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        for connection in tuple(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()


def serve(served: Served, listening: socket.socket, load: Load, say: Say | None, ready: Callable[[], None]) -> None:
    """Answers until a signal comes; `ready` is called once the model that `load` gives is there.

    Raises the `ShoalError` of `load`. What it gave is closed by whoever called.
    """
    server = Server(served, say)
    loading = threading.Thread(target=_load, args=(server, load, ready), name="shoal-load", daemon=True)
    loading.start()
    server.run([listening])
    if served.problem is not None:
        raise served.problem
    if loading.is_alive():
        # It reads gigabytes and cannot be told to stop.
        os._exit(0)


def _load(server: Server, load: Load, ready: Callable[[], None]) -> None:
    try:
        model = load()
    except ShoalError as problem:
        server.served.fail(problem)
        server.stop()
        return
    model.engine.start()
    server.served.open(model)
    ready()
