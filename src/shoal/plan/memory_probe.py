"""How fast this machine streams from memory: all threads read a buffer far larger than the caches.

The reader is the C library's `memchr`, looking for a byte that is not there: it loads every byte and does little
else, and ctypes runs it without the interpreter's lock.
"""

import contextlib
import ctypes
import mmap
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from shoal.checkpoint.private_memory import private_memory
from shoal.errors import OptionError

SMALLEST_NBYTES, THREAD_NBYTES, SLICE_NBYTES = 1 << 30, 64 << 20, 1 << 20
PASSES, READS_A_PASS, SECONDS = 6, 2, 2.0
FILL, ABSENT = 1, 255


@dataclass(frozen=True)
class MemoryRate:
    """Bytes a second, and the share of their time that the threads had a processor: below 1 on a busy machine."""

    per_second: float
    processor_share: float


def buffer_nbytes(threads: int, free: int) -> int:
    """What to read: far more than the caches of that many processors, at most a quarter of the free memory."""
    return max(threads * SLICE_NBYTES, min(max(SMALLEST_NBYTES, threads * THREAD_NBYTES), free // 4))


def measure_memory(threads: int, nbytes: int) -> MemoryRate:
    """The best of several passes of `threads` threads over `nbytes`. Takes a second or two.

    `OptionError` where that much memory cannot be had.
    """
    assert 0 < threads <= nbytes, (threads, nbytes)
    buffer, share = _memory(nbytes), nbytes // threads
    start = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    memchr = ctypes.CDLL(None).memchr
    memchr.restype, memchr.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)

    def fill(thread: int) -> None:
        ctypes.memset(start + thread * share, FILL, share)

    def read(thread: int) -> None:
        for _ in range(READS_A_PASS):
            found = memchr(start + thread * share, ABSENT, share)
            assert found is None, found

    # Each thread fills what it will read: memory never touched, or idle for long, reads at another speed.
    _together(threads, fill)
    passes, ended = [_together(threads, read)], time.monotonic() + SECONDS
    while len(passes) < PASSES and time.monotonic() < ended:
        passes.append(_together(threads, read))
    rates = [MemoryRate(READS_A_PASS * share * threads / wall, busy / wall / threads) for wall, busy in passes]
    return max(rates, key=lambda rate: rate.per_second)


def _memory(nbytes: int) -> mmap.mmap:
    try:
        buffer = private_memory(nbytes)
    except OSError as error:
        raise OptionError(f"cannot take {nbytes:,} bytes to measure the memory with: {error.strerror}") from None
    # A kernel without transparent huge pages refuses, and reads a little slower.
    with contextlib.suppress(OSError):
        buffer.madvise(mmap.MADV_HUGEPAGE)
    return buffer


def _together(threads: int, work: Callable[[int], None]) -> tuple[float, float]:
    """Runs `work(thread)` on every thread at once: seconds from the first start to the last end, and of processor."""
    spans: list[tuple[float, float, float]] = []
    barrier = threading.Barrier(threads)

    def run(thread: int) -> None:
        barrier.wait()
        started, busy = time.perf_counter(), time.thread_time()
        work(thread)
        spans.append((started, time.perf_counter(), time.thread_time() - busy))

    running = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    starts, ends, busy = zip(*spans, strict=True)
    return max(ends) - min(starts), sum(busy)
