"""The most memory that this process had while it was watched, as the kernel counts it.

The kernel itself keeps the peak (`VmHWM`), between samples too, and is asked to begin anew; where it refuses, a peak
from before that was not surpassed is not taken, and the largest sample counts.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from shoal.doctor.kernel_file import read_fields

PROC = Path("/proc/self")
FORGET_PEAK = "5"
INTERVAL_SECONDS = 0.05


class Resident(NamedTuple):
    """Bytes in memory: all of them, and what of them is anonymous and of mapped files."""

    nbytes: int
    anonymous: int
    of_files: int


class ResidentPeak:
    """Watches within `with`, as often as wanted; what was highest counts. Linux only: elsewhere all is 0."""

    def __init__(self, proc: Path = PROC, interval: float = INTERVAL_SECONDS) -> None:
        self.largest = Resident(0, 0, 0)
        self._proc, self._interval = proc, interval
        self._peak = self._before = 0
        self._ended = threading.Event()
        self._thread = threading.Thread()

    @property
    def nbytes(self) -> int:
        """The peak."""
        return max(self._peak, self.largest.nbytes)

    def __enter__(self) -> Self:
        # Not every kernel, and not every container, lets a process do so.
        with suppress(OSError):
            (self._proc / "clear_refs").write_text(FORGET_PEAK)
        self._before = self._sample().get("VmHWM", 0)
        self._ended.clear()
        self._thread = threading.Thread(target=self._watch, name="resident-peak", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        peak = self._sample().get("VmHWM", 0)
        if peak > self._before:
            self._peak = max(self._peak, peak)

    def _watch(self) -> None:
        while not self._ended.wait(self._interval):
            self._sample()

    def _sample(self) -> Mapping[str, int]:
        """The kernel's fields, after a look at whether more is resident than ever."""
        fields = read_fields(self._proc / "status")
        now = Resident(*(fields.get(name, 0) for name in ("VmRSS", "RssAnon", "RssFile")))
        self.largest = max(self.largest, now)
        return fields
