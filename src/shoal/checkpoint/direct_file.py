"""Reads of a shard past the page cache: whole pages into memory of the caller's, at the disk's speed."""

import errno
import os
import threading
from collections.abc import Callable

from shoal.checkpoint.json_object import quoted
from shoal.checkpoint.shard_file import FileIdentity, ShardFile
from shoal.errors import FileChangedError

ALIGNMENT = 4096
"""Of offsets, lengths and memory: what every disk takes."""
# A read that is watched can be ended after this much; 1 MiB is enough for the disk's full speed.
PIECE_NBYTES = 8 << 20
# Fewer calls take less of the processor. Linux moves at most 2 GiB a call.
LARGEST_PIECE_NBYTES = 1 << 30

ReadProgress = Callable[[int], None]
"""Takes the bytes just read. May be called from any thread."""
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

    Elsewhere its bytes come through the page cache, which is told to forget them, and `notice` says so. With
    `through_page_cache` they come through it by choice, and it keeps them. Reads from several threads at once are fine.
    """

    def __init__(self, shard: ShardFile, notice: Notice, *, through_page_cache: bool = False) -> None:
        """Raises FileChangedError when the shard's path names another file by now, or one that cannot be opened."""
        self.path, self._shard, self._notice = shard.path, shard, notice
        self._is_kept = through_page_cache
        self._turning = threading.Lock()
        self._fds = list[int]()
        self.is_direct = not through_page_cache
        if self.is_direct:
            self._open_direct()
        if not self.is_direct:
            self._open()

    def close(self) -> None:
        """Closes it; no read may be under way."""
        while self._fds:
            os.close(self._fds.pop())

    @property
    def fd(self) -> int:
        """The descriptor to read with, until `close`; another one after `turn_to_page_cache`."""
        return self._fds[-1]

    @property
    def identity(self) -> FileIdentity:
        """What must stay equal for the bytes at `path` to be those of the file that was opened first."""
        return self._shard.identity

    def check(self) -> None:
        """Raises FileChangedError unless the path still names the file that was opened first, unchanged."""
        self._shard.check()

    def turn_to_page_cache(self, reason: str | None) -> None:
        """After O_DIRECT was refused for `reason`: from now on through the page cache, if it is not so already."""
        with self._turning:
            if self.is_direct:
                # The first descriptor stays open: another thread may be reading with it.
                self._open()
                self._give_up_direct(reason)

    def forget(self, offset: int, nbytes: int) -> None:
        """What was read through the page cache need not stay in it; of other files nothing is there."""
        if not self.is_direct and not self._is_kept and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, offset, nbytes, os.POSIX_FADV_DONTNEED)

    def problem(self, start: int, wanted: int, filled: int, error: int) -> FileChangedError:
        """Why of `wanted` bytes from `start` on only `filled` came: the system's `error`, or 0 where the file ended.

        Raises instead what `check` raises: it says more.
        """
        self.check()
        if error:
            found = f"became unreadable at byte {start + filled:,}: {os.strerror(error)}"
        else:
            found = f"was shortened: at byte {start:,} found {filled:,} bytes, expected {wanted:,}"
        return FileChangedError(f"{quoted(self.path)} {found}", hint=_RESTART)

    def read(self, view: memoryview, start: int, wanted: int, progress: ReadProgress | None = None) -> None:
        """Fills at least the first `wanted` bytes of `view` from byte `start`. All three of whole pages but `wanted`.

        `progress` takes each piece's bytes, `wanted` in all; what it raises ends the read. Raises FileChangedError
        when the file ends before, cannot be read, or changed by the end of the read.
        """
        assert start % ALIGNMENT == 0 and len(view) % ALIGNMENT == 0 and wanted <= len(view), (start, len(view), wanted)
        self.check()
        piece = LARGEST_PIECE_NBYTES if progress is None else PIECE_NBYTES
        filled = 0
        while filled < wanted:
            got = self._read_piece(view[filled : filled + piece], start + filled)
            # A short read need not end at a page, where the next one has to begin.
            step = got if not self.is_direct else page_start(got)
            if step == 0 and filled + got < wanted:
                raise self.problem(start, wanted, filled + got, 0)
            now = wanted if filled + got >= wanted else filled + step
            if progress is not None:
                progress(now - filled)
            filled = now
        self.check()

    def _read_piece(self, view: memoryview, offset: int) -> int:
        direct = self.is_direct
        try:
            got = os.preadv(self.fd, [view], offset)
        except OSError as problem:
            if direct and problem.errno == errno.EINVAL:
                self.turn_to_page_cache(problem.strerror)
                return self._read_piece(view, offset)
            raise self.problem(offset, len(view), 0, problem.errno or errno.EIO) from problem
        self.forget(offset, len(view))
        return got

    def _open_direct(self) -> None:
        """Leaves it to `_open` where O_DIRECT is refused."""
        if not hasattr(os, "O_DIRECT"):
            self._give_up_direct("this system has none")
            return
        try:
            self._fds.append(self._shard.reopen(os.O_DIRECT))
        except OSError as problem:
            if problem.errno != errno.EINVAL:
                raise self._cannot_open(problem) from problem
            self._give_up_direct(problem.strerror)

    def _open(self) -> None:
        try:
            self._fds.append(self._shard.reopen())
        except OSError as problem:
            raise self._cannot_open(problem) from problem

    def _cannot_open(self, problem: OSError) -> FileChangedError:
        return FileChangedError(f"{quoted(self.path)} cannot be opened: {problem.strerror}", hint=_RESTART)

    def _give_up_direct(self, reason: str | None) -> None:
        self.is_direct = False
        self._notice(
            f"{quoted(self.path.parent)} cannot be read past the page cache (O_DIRECT: {reason}): "
            "it is read through it, which is slower"
        )


_RESTART = "a checkpoint must not be touched while it is in use; restart once it is complete"
