"""The reader of Engram rows with the files it reads: whole blocks past the page cache, many at once.

io_uring where the system lets us, else threads; O_DIRECT where the file system has it, else through the page cache.
Which it is changes no byte; that something was refused is said once.
"""

import errno
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

import shoal._native as native
from shoal.checkpoint.direct_file import Notice
from shoal.checkpoint.header import TensorEntry
from shoal.checkpoint.shards import Checkpoint
from shoal.errors import FileChangedError

BLOCK_NBYTES = 4096
DIRECT = getattr(os, "O_DIRECT", 0)


def say_nothing(_: str) -> None:
    """For who does not want to know."""


@dataclass(frozen=True)
class ReaderOptions:
    """How rows are read; the bytes are the same for all.

    `depth` reads are under way in the ring, or `threads` where there is none; `shuffle`, not 0, is the seed of an order
    in which reads are started.
    """

    uring: bool = True
    direct: bool = True
    depth: int = 128
    threads: int = 16
    shuffle: int = 0


class RowReader:
    """A native reader of this process, and the files of a checkpoint that it has been given."""

    def __init__(
        self, checkpoint: Checkpoint, options: ReaderOptions | None = None, notice: Notice = say_nothing
    ) -> None:
        self.checkpoint, self.options, self._notice = checkpoint, options or ReaderOptions(), notice
        self._native: native.RowReader | None = None
        self._process = os.getpid()
        self._files: dict[Path, int] = {}
        self._said: set[str] = set()
        self._closed = False

    @property
    def kind(self) -> str:
        """`io_uring` or `threads`."""
        return self.open().kind

    def open(self) -> native.RowReader:
        """The reader; another one in a child of a fork, which has none of its parent's threads.

        Raises ValueError after `close`.
        """
        if self._closed:
            raise ValueError(f"the row reader of `{self.checkpoint.directory}` is closed")
        if self._native is None or self._process != os.getpid():
            o = self.options
            self._native = native.RowReader(o.uring, o.depth, o.threads, o.shuffle)
            self._process, self._files = os.getpid(), {}
            if refusal := self._native.refusal:
                self._say(f"io_uring is refused ({os.strerror(refusal)}): {o.threads} threads read Engram rows")
        return self._native

    def file_of(self, entry: TensorEntry) -> int:
        """The reader's number of the tensor's shard, opened the first time. Raises what opening a file may raise."""
        reader = self.open()
        if entry.path not in self._files:
            fd, direct = self._descriptor(entry)
            self._files[entry.path] = reader.add_file(fd, direct)
        return self._files[entry.path]

    def close(self) -> None:
        """Ends what is under way and closes the files."""
        self._closed = True
        if self._native is not None and self._process == os.getpid():
            self._native.close()
        self._native = None

    def _descriptor(self, entry: TensorEntry) -> tuple[int, bool]:
        """An own descriptor of the shard, and whether it reads past the page cache."""
        if self.options.direct and DIRECT:
            try:
                fd = self.checkpoint.reopen(entry.name, DIRECT)
                if _reads_blocks(fd):
                    return fd, True
                os.close(fd)
            except OSError as refusal:
                if refusal.errno != errno.EINVAL:
                    raise unreadable(entry, str(refusal.strerror)) from refusal
            self._say(f"`{entry.path.parent}` refuses O_DIRECT: Engram rows come through the page cache")
        try:
            fd = self.checkpoint.reopen(entry.name)
        except OSError as refusal:
            raise unreadable(entry, str(refusal.strerror)) from refusal
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        return fd, False

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._notice(sentence)


def read_problem(entry: TensorEntry, row: int, error: int) -> FileChangedError:
    """What a failed read of a row of this tensor is: an error number of the system, or 0 where the file ended."""
    where = f"row {row:,} of `{entry.name}` at byte {entry.start + row * row_nbytes(entry):,}"
    if error:
        return unreadable(entry, f"{os.strerror(error)}, reading {where}")
    return FileChangedError(f"`{entry.path}` was shortened: it ends before {where}", hint=_RESTART)


def row_nbytes(entry: TensorEntry) -> int:
    """Bytes of a row of this tensor."""
    return entry.nbytes // entry.shape[0]


def unreadable(entry: TensorEntry, reason: str) -> FileChangedError:
    """The error of a shard that was readable when the checkpoint was opened."""
    return FileChangedError(f"`{entry.path}` became unreadable: {reason}", hint=_RESTART)


def _reads_blocks(fd: int) -> bool:
    """Whether O_DIRECT works beyond opening. OSError when it does not for another reason than being refused."""
    try:
        with mmap.mmap(-1, BLOCK_NBYTES) as buffer:
            return os.preadv(fd, [buffer], 0) >= 0
    except OSError as refusal:
        if refusal.errno == errno.EINVAL:
            return False
        os.close(fd)
        raise


_RESTART = "a checkpoint must not be touched while it is in use; restart once it is complete"
