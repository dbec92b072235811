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
from shoal.serve.guard import MOST_HEADER_NBYTES
from shoal.serve.request_log import Say
from shoal.serve.served import Served, ServedModel

Load = Callable[[], ServedModel]
_IDLE_SECONDS = 75
# What is left to answer, once the engine has ended what ran.
_LAST_SECONDS = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """Ends at SIGINT or SIGTERM: no new requests, running ones have `shutdown_seconds`; at the second, at once."""

    def __init__(self, served: Served, say: Say | None) -> None:
        seconds = served.options.shutdown_seconds
        super().__init__(
            uvicorn.Config(
                create_app(served, say),
                http="h11",
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

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes the signals, and gives them back at the end without raising them again: to end was their meaning."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first ends the server; the second the process, for whoever cannot wait."""
        if self.should_exit:
            os._exit(128 + sig)
        self.stop()

    def stop(self) -> None:
        """Ends the server, from any thread."""
        self.served.is_draining = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets what runs end while the connections are still there, then closes those."""
        draining = asyncio.create_task(self._drain())
        await super().shutdown(sockets)
        await draining

    async def _drain(self) -> None:
        if self.served.is_open:
            await asyncio.to_thread(self.served.model.engine.drain, self.served.options.shutdown_seconds)


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
