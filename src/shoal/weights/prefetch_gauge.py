"""Whether reading ahead pays, told from what became of the reads."""

from collections import deque

WINDOW = 256
"""Guesses after which it is judged, by the last so many: six tokens of the release's forty layers."""
PAUSE = 4096
"""Guesses left out before it is tried again: a trial that fails costs one token in sixteen what reading ahead costs."""
# A read that nobody asks for delays those that are waited for by at most its own time, and that is what one that is
# asked for spares at most.
FEWEST_USED = 0.5
# Fewer, and the guesses cost more than they could spare: everything is in memory, or the disk never rests.
FEWEST_BEGUN = WINDOW // 16


class PrefetchGauge:
    """On at first; off for `PAUSE` guesses when it does not pay, then on trial again.

    It does not pay where fewer than half of the reads that began were of use, or hardly any could begin.
    """

    def __init__(self) -> None:
        self._judged = deque[tuple[int, int]]()
        self._begun = self._used = self._left_out = 0

    def wants_guess(self) -> bool:
        """Whether to read ahead this time. Asked once a guess: it counts those it leaves out."""
        if self._left_out:
            self._left_out -= 1
            return False
        return True

    def judge(self, begun: int, used: int) -> None:
        """What became of one guess: of the reads that began, how many were asked for."""
        self._judged.append((begun, used))
        self._begun, self._used = self._begun + begun, self._used + used
        if len(self._judged) < WINDOW:
            return
        if self._begun < FEWEST_BEGUN or self._used < FEWEST_USED * self._begun:
            self._judged.clear()
            self._begun = self._used = 0
            self._left_out = PAUSE
            return
        oldest_begun, oldest_used = self._judged.popleft()
        self._begun, self._used = self._begun - oldest_begun, self._used - oldest_used
