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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

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
        try:
            in_data = os.lseek(self.fd, self.offset, os.SEEK_DATA) == self.offset
            return in_data and os.lseek(self.fd, self.offset, os.SEEK_HOLE) >= self.offset + self.nbytes
        except OSError:  # nothing but a hole up to the end
            return False

    def read_into(self, buffer: mmap.mmap, direct: bool) -> int:
        if not direct:
            os.posix_fadvise(self.fd, self.offset, self.nbytes, os.POSIX_FADV_DONTNEED)
        return os.preadv(self.fd, [memoryview(buffer)[: self.nbytes]], self.offset)


def measure_disk(files: Sequence[Path], seconds: float = SECONDS) -> DiskRate:
    """The rate at which random pieces of `files` arrive, read for at most `seconds`.

    `OptionError` when there is nothing to read: no file of a page, only holes, or a file that cannot be opened or read.
    """
    direct = all(_reads_directly(file) for file in files)
    with ExitStack() as stack:
        fds = [_open(file, direct) for file in files]
        for fd in fds:
            stack.callback(os.close, fd)
        pieces = [piece for piece in _sample(fds) if piece.is_data]
        if not pieces:
            raise OptionError(f"the {len(files)} files hold no data to measure the disk with, only holes or less")
        return DiskRate(_read_all(pieces, direct, seconds), direct)


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


def _read_all(pieces: Sequence[_Piece], direct: bool, seconds: float) -> float:
    started = time.perf_counter()
    waiting, done, failed = iter(pieces), [], []

    def read() -> None:
        buffer = mmap.mmap(-1, PIECE_NBYTES)
        for piece in waiting:
            try:
                done.append(piece.read_into(buffer, direct))
            except OSError as error:
                failed.append(error)
            if failed or time.perf_counter() - started > seconds:
                return

    threads = [threading.Thread(target=read) for _ in range(min(THREADS, len(pieces)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise OptionError(f"the disk cannot be read: {failed[0].strerror}")
    return sum(done) / (time.perf_counter() - started)
