"""The last compressed token ids of a sequence, which Engram's n-grams reach back to (spec §5d)."""

from copy import copy

import numpy as np

from shoal.engram.hashing import Int64Array, empty_history, next_history


class TokenHistory:
    """`ids` int64 [history]: oldest first, `DEAD` inside images and before the start."""

    def __init__(self, history: int) -> None:
        self.ids = empty_history(history)
        self.length = 0
        self.settle()

    def extend(self, compressed: Int64Array) -> None:
        """Append the compressed ids of the next tokens."""
        self._start, self._before, self._appended = self.length, self.ids, compressed
        self.ids = next_history(self.ids, compressed)
        self.length += len(compressed)

    def truncate(self, length: int) -> None:
        """Undo the last pass from position `length` on."""
        assert self._start <= length <= self.length, (self._start, length, self.length)
        self.ids = next_history(self._before, self._appended[: length - self._start])
        self.length = length

    def load(self, ids: Int64Array, length: int) -> None:
        """Take over a saved state of a sequence of `length` tokens."""
        self.ids, self.length = np.array(ids, dtype=np.int64), length
        self.settle()

    def fork(self) -> "TokenHistory":
        """The same history, to go on alone: ids are replaced and never written to, so they are shared."""
        return copy(self)

    def settle(self) -> None:
        """Make the last pass final."""
        self._start, self._before, self._appended = self.length, self.ids, self.ids[:0]
