"""Says on stderr that something is still going on, once it has taken two seconds."""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

FIRST_SECONDS, NEXT_SECONDS = 2.0, 5.0


class Ticker:
    """While it is entered, prints what `describe` gives and the seconds so far: after 2 s, then every 5 s.

    A line each, so that a log reads like a terminal. `quiet` prints nothing.
    """

    def __init__(self, describe: Callable[[], str], *, quiet: bool = False) -> None:
        self._describe, self._quiet = describe, quiet
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        started, wait = time.monotonic(), FIRST_SECONDS
        while not self._done.wait(wait):
            print(f"{self._describe()}, {time.monotonic() - started:.0f} s so far", file=sys.stderr, flush=True)
            wait = NEXT_SECONDS
