"""Reads of a shard past the page cache: whole pages into memory of the caller's, at the disk's speed."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from shoal.checkpoint.json_object import quoted
from shoal.checkpoint.shard_file import FileIdentity
from shoal.errors import FileChangedError

ALIGNMENT = 4096
"""Of offsets, lengths and memory: what every disk takes."""
# A read that is ended early ends after this much; 1 MiB is enough for the disk's full speed.
PIECE_NBYTES = 8 << 20

Notice = Callable[[str], None]
"""Takes a sentence that a person should read once. May be called from any thread."""


def page_start(offset: int) -> int:
    """`offset`, rounded down to a page."""
    return offset // ALIGNMENT * ALIGNMENT


def page_end(offset: int) -> int:
    """`offset`, rounded up to a page."""
    return page_start(offset + ALIGNMENT - 1)


class DirectFile:
    """A shard opened a second time, with O_DIRECT where the file system has it, until `close`.

    Elsewhere its bytes come through the page cache, which is told to forget them, and `notice` says so. Reads from
    several threads at once are fine.
    """

    def __init__(self, path: Path, check: Callable[[], None], notice: Notice) -> None:
        """`check` raises unless `path` still is the file whose header was read. Raises FileChangedError."""
        self.path, self._check, self._notice = path, check, notice
        self._turning = threading.Lock()
        self.is_direct = hasattr(os, "O_DIRECT")
        self._fds = list[int]()
        try:
            self._open()
            if FileIdentity.of(os.fstat(self._fd)) != FileIdentity.of(path.stat()):
                raise FileChangedError(f"{quoted(path)} was replaced while it was being opened", hint=_RESTART)
            self._check()
        except OSError as problem:
            self.close()
            raise FileChangedError(f"{quoted(path)} cannot be opened: {problem.strerror}", hint=_RESTART) from problem
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes it; no read may be under way."""
        while self._fds:
            os.close(self._fds.pop())

    @property
    def _fd(self) -> int:
        return self._fds[-1]

    def read(self, view: memoryview, start: int, wanted: int) -> None:
        """Fills at least the first `wanted` bytes of `view` from byte `start`. All three of whole pages but `wanted`.

        Raises FileChangedError when the file ends before, cannot be read, or changed by the end of the read.
        """
        assert start % ALIGNMENT == 0 and len(view) % ALIGNMENT == 0 and wanted <= len(view), (start, len(view), wanted)
        self._check()
        filled = 0
        while filled < wanted:
            got = self._read_piece(view[filled : filled + PIECE_NBYTES], start + filled)
            if filled + got >= wanted:
                break
            # A short read need not end at a page, where the next one has to begin.
            step = got if not self.is_direct else page_start(got)
            if step == 0:
                found = f"at byte {start:,} found {filled + got:,} bytes, expected {wanted:,}"
                raise FileChangedError(f"{quoted(self.path)} was shortened: {found}", hint=_RESTART)
            filled += step
        self._check()

    def _read_piece(self, view: memoryview, offset: int) -> int:
        direct = self.is_direct
        try:
            got = os.preadv(self._fd, [view], offset)
        except OSError as problem:
            if direct and problem.errno == errno.EINVAL:
                self._turn_to_page_cache(problem)
                return self._read_piece(view, offset)
            found = f"became unreadable at byte {offset:,}: {problem.strerror}"
            raise FileChangedError(f"{quoted(self.path)} {found}", hint=_RESTART) from problem
        if not direct and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, offset, len(view), os.POSIX_FADV_DONTNEED)
        return got

    def _open(self) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC
        if self.is_direct:
            try:
                self._fds.append(os.open(self.path, flags | os.O_DIRECT))
                return
            except OSError as problem:
                if problem.errno != errno.EINVAL:
                    raise
                self._give_up_direct(problem)
        self._fds.append(os.open(self.path, flags))

    def _turn_to_page_cache(self, problem: OSError) -> None:
        with self._turning:
            if self.is_direct:
                # The first descriptor stays open: another thread may be reading with it.
                self._fds.append(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))
                self._give_up_direct(problem)

    def _give_up_direct(self, problem: OSError) -> None:
        self.is_direct = False
        self._notice(
            f"{quoted(self.path)} cannot be read past the page cache (O_DIRECT: {problem.strerror}): "
            "it is read through it, which is slower"
        )


_RESTART = "a checkpoint must not be touched while it is in use; restart once it is complete"
