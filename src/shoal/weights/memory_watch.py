"""What a run may still hold when the limit it was planned under has become tighter, or wide again."""

import time
from collections.abc import Callable

from shoal.checkpoint.direct_file import Notice
from shoal.plan.size import gib

# A limit is three files of the kernel's; a token takes longer than to read them.
SECONDS = 1.0


class MemoryWatch:
    """Of a budget of `memory` bytes for everything, those that are the experts' to hold now, looked up once a second.

    `limit` gives the bytes that everything may have now, None where nothing limits it. Losing some is said, once for
    every new limit.
    """

    def __init__(self, limit: Callable[[], int | None], memory: int, notice: Notice) -> None:
        self.memory = memory
        self._limit, self._notice = limit, notice
        self._lost, self._looked = 0, float("-inf")

    def lost(self) -> int:
        """Bytes of the budget that the limit no longer grants."""
        now = time.monotonic()
        if now - self._looked < SECONDS:
            return self._lost
        self._looked = now
        limit = self._limit()
        lost = 0 if limit is None else max(0, self.memory - limit)
        if lost > self._lost:
            self._notice(
                f"the control group now grants {gib(self.memory - lost)} of the {gib(self.memory)} that were planned: "
                "fewer experts are kept, and more are read from the disk"
            )
        self._lost = lost
        return lost
