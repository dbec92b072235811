"""How fast whole experts come from the disk: O_DIRECT reads of random pieces of the shards, several at a time.

Holes of a sparse file are never read, since no disk is that fast. Where the file system has no O_DIRECT, pieces are
dropped from the page cache and read through it, and the result says so.
"""

import errno
import mmap
import os
import random
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from shoal.checkpoint.private_memory import private_memory
from shoal.errors import OptionError

PIECE_NBYTES = 16 << 20
ALIGNMENT = 4096
THREADS, SECONDS = 4, 2.0
MOST_PIECES = 1024


@dataclass(frozen=True)
class DiskRate:
    """Bytes a second, and whether they came by O_DIRECT."""

    per_second: float
    direct: bool


@dataclass(frozen=True)
class _Piece:
    fd: int
    offset: int
    nbytes: int

    @property
    def is_data(self) -> bool:
        """Whether no part of it is a hole."""
        return holds_data(self.fd, self.offset, self.nbytes)

    def read_into(self, buffer: mmap.mmap, direct: bool) -> int:
        if not direct:
            os.posix_fadvise(self.fd, self.offset, self.nbytes, os.POSIX_FADV_DONTNEED)
        return os.preadv(self.fd, [memoryview(buffer)[: self.nbytes]], self.offset)


@dataclass(frozen=True)
class ProbeRun:
    """What one run of the probe read, and how long that took."""

    nbytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.nbytes / self.seconds


class DiskProbe:
    """Random pieces of `files`, read as often as wanted, none again before most others; `close` it at the end.

    `direct` says whether they come by O_DIRECT; `runs` are those done so far.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        """`OptionError` when there is nothing to read: no file of a page, only holes, or a file that cannot be opened
        or read."""
        self.direct = all(_reads_directly(file) for file in files)
        self.runs = list[ProbeRun]()
        with ExitStack() as stack:
            fds = [_open(file, self.direct) for file in files]
            for fd in fds:
                stack.callback(os.close, fd)
            self._pieces = [piece for piece in _sample(fds) if piece.is_data]
            if not self._pieces:
                raise OptionError(f"the {len(files)} files hold no data to measure the disk with, only holes or less")
            self._open_files = stack.pop_all()
        self._waiting = deque(self._pieces)

    def close(self) -> None:
        """Closes the files."""
        self._open_files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def best_rate(self) -> float:
        """Of the runs so far, in bytes a second."""
        return max(run.rate for run in self.runs)

    def run(self, seconds: float = SECONDS) -> float:
        """Bytes a second of pieces read for at most `seconds`, none of them twice. `OptionError` when one cannot be."""
        # As many as the longest run took; a run that the end of the deck cuts short would be all start and end.
        if len(self._waiting) < max((-(-run.nbytes // PIECE_NBYTES) for run in self.runs), default=0):
            self._waiting = deque(random.sample(self._pieces, len(self._pieces)))
        self.runs.append(_read_all(self._waiting, self.direct, seconds))
        return self.runs[-1].rate


def measure_disk(files: Sequence[Path], seconds: float = SECONDS) -> DiskRate:
    """The rate at which random pieces of `files` arrive, read for at most `seconds`. Raises as `DiskProbe` does."""
    with DiskProbe(files) as probe:
        return DiskRate(probe.run(seconds), probe.direct)


def holds_data(fd: int, offset: int, nbytes: int) -> bool:
    """Whether no byte of them is a hole, which a file system answers without the disk."""
    try:
        in_data = os.lseek(fd, offset, os.SEEK_DATA) == offset
        return in_data and os.lseek(fd, offset, os.SEEK_HOLE) >= offset + nbytes
    except OSError:  # nothing but a hole up to the end
        return False


def _reads_directly(file: Path) -> bool:
    if not hasattr(os, "O_DIRECT"):
        return False
    try:
        fd = _open(file, True)
    except OptionError:
        return False
    try:
        return os.preadv(fd, [mmap.mmap(-1, ALIGNMENT)], 0) >= 0
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise OptionError(f"cannot read `{file}`: {error.strerror}") from None
    finally:
        os.close(fd)


def _open(file: Path, direct: bool) -> int:
    try:
        return os.open(file, os.O_RDONLY | os.O_CLOEXEC | (os.O_DIRECT if direct else 0))
    except OSError as error:
        raise OptionError(f"cannot open `{file}`: {error.strerror}") from None


def _sample(fds: Sequence[int]) -> list[_Piece]:
    """Some of all pieces in random order, none twice."""
    pieces = [piece for fd in fds for piece in _pieces(fd)]
    return random.Random().sample(pieces, min(len(pieces), MOST_PIECES))


def _pieces(fd: int) -> Iterator[_Piece]:
    whole = os.fstat(fd).st_size // ALIGNMENT * ALIGNMENT
    for offset in range(0, whole, PIECE_NBYTES):
        yield _Piece(fd, offset, min(PIECE_NBYTES, whole - offset))


def _read_all(waiting: deque[_Piece], direct: bool, seconds: float) -> ProbeRun:
    done, failed = list[int](), list[OSError]()
    largest = max(piece.nbytes for piece in waiting)
    buffers = [_buffer(largest) for _ in range(min(THREADS, len(waiting)))]
    started = time.perf_counter()

    def read(buffer: mmap.mmap) -> None:
        with suppress(IndexError):  # no piece is left
            while True:
                try:
                    done.append(waiting.popleft().read_into(buffer, direct))
                except OSError as error:
                    failed.append(error)
                if failed or time.perf_counter() - started > seconds:
                    return

    threads = [threading.Thread(target=read, args=(buffer,)) for buffer in buffers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise OptionError(f"the disk cannot be read: {failed[0].strerror}")
    return ProbeRun(sum(done), time.perf_counter() - started)


def _buffer(nbytes: int) -> mmap.mmap:
    """Room for a piece, every page touched: the first write to a page takes longer than the disk to fill it."""
    buffer = private_memory(nbytes)
    with suppress(AttributeError, OSError):  # a system without huge pages
        buffer.madvise(mmap.MADV_HUGEPAGE)
    memoryview(buffer)[::ALIGNMENT] = bytes(len(range(0, nbytes, ALIGNMENT)))
    return buffer
