"""The thread that writes snapshots while requests go on."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class PrefixWriter(Generic[Item]):
    """Hands items to `write` one after another, the oldest first. Ends with the process, or with `close`."""

    def __init__(self, write: Callable[[Item], None]) -> None:
        self._write = write
        self._waiting: dict[int, Item] = {}
        self._current: Item | None = None
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="shoal-prefix-writer", daemon=True)
        self._thread.start()

    def add(self, item: Item) -> None:
        """Write it when its turn comes; once, if it waits already. Nothing after the end."""
        with self._changed:
            if not self._is_closed:
                self._waiting.setdefault(id(item), item)
                self._changed.notify_all()

    def withdraw(self, item: Item) -> bool:
        """Do not write it. False when it is being written this moment."""
        with self._changed:
            self._waiting.pop(id(item), None)
            return self._current is not item

    def flush(self, seconds: float) -> bool:
        """Wait until nothing is left to write, at most so long; whether nothing is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and self._current is None, seconds)

    def close(self, seconds: float) -> None:
        """Write what waits for at most so long, then end the thread; what it is writing then ends with the process."""
        self.flush(seconds)
        self._end()

    def _end(self) -> None:
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while (item := self._next()) is not None:
                self._write(item)
        finally:
            # Should it fail, nobody waits for it.
            with self._changed:
                self._current = None
            self._end()

    def _next(self) -> Item | None:
        """The next item, from now on the current one; None at the end."""
        with self._changed:
            self._current = None
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if self._waiting:
                self._current = self._waiting.pop(next(iter(self._waiting)))
            return self._current
