"""Rows of tensors from their shards, many at once: whole blocks past the page cache, submitted now, waited for later.

io_uring where the system lets us, else threads; O_DIRECT where the file system has it, else through the page cache.
Which it is changes no byte; that something was refused is said once.
"""

import errno
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import shoal._native as native
from shoal.checkpoint.direct_file import Notice
from shoal.checkpoint.header import TensorEntry
from shoal.checkpoint.shards import Checkpoint
from shoal.errors import FileChangedError, TensorError

BLOCK_NBYTES = 4096
# Between two looks at what else the process is told, as an interrupt.
WAIT_SECONDS = 0.1
DIRECT = getattr(os, "O_DIRECT", 0)

Rows = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]


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


@dataclass(frozen=True)
class ReadCost:
    """What the disk was asked for: reads, and their bytes in whole blocks."""

    reads: int
    nbytes: int


class RowReader:
    """Reads rows of a checkpoint's tensors. Files are opened at the first read; `close` ends all."""

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
        return self._open().kind

    def start(self, names: Sequence[str], row_ids: Ids) -> "Reading":
        """Begin to read the rows `row_ids` of each tensor in `names`; returns at once.

        Raises TensorError for a row that does not exist, ValueError after `close`, and what opening a file may raise.
        """
        entries = [self.checkpoint.entry(name) for name in names]
        reader = self._open()
        files, starts, nbytes = [], [], []
        for entry in entries:
            width = _row_nbytes(entry, row_ids)
            files.append(np.full(len(row_ids), self._file(reader, entry), dtype=np.uint32))
            starts.append(entry.start + row_ids * width)
            nbytes.append(np.full(len(row_ids), width, dtype=np.uint32))
        where, at, sizes = np.concatenate(files), np.concatenate(starts), np.concatenate(nbytes)
        batch = reader.submit(where.ctypes.data, at.ctypes.data, sizes.ctypes.data, len(where))
        return Reading(self.checkpoint, entries, row_ids, batch)

    def close(self) -> None:
        """Ends what is under way and closes the files."""
        self._closed = True
        if self._native is not None and self._process == os.getpid():
            self._native.close()
        self._native = None

    def _open(self) -> native.RowReader:
        if self._closed:
            raise ValueError(f"the row reader of `{self.checkpoint.directory}` is closed")
        # A child of a fork has none of its parent's threads.
        if self._native is None or self._process != os.getpid():
            o = self.options
            self._native = native.RowReader(o.uring, o.depth, o.threads, o.shuffle)
            self._process, self._files = os.getpid(), {}
            if refusal := self._native.refusal:
                self._say(f"io_uring is refused ({os.strerror(refusal)}): {o.threads} threads read Engram rows")
        return self._native

    def _file(self, reader: native.RowReader, entry: TensorEntry) -> int:
        if entry.path not in self._files:
            fd, direct = self._descriptor(entry)
            self._files[entry.path] = reader.add_file(fd, direct)
        return self._files[entry.path]

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
                    raise _unreadable(entry, str(refusal.strerror)) from refusal
            self._say(f"`{entry.path.parent}` refuses O_DIRECT: Engram rows come through the page cache")
        try:
            fd = self.checkpoint.reopen(entry.name)
        except OSError as refusal:
            raise _unreadable(entry, str(refusal.strerror)) from refusal
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        return fd, False

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._notice(sentence)


class Reading:
    """Rows that are on their way."""

    def __init__(
        self, checkpoint: Checkpoint, entries: Sequence[TensorEntry], row_ids: Ids, batch: native.RowBatch
    ) -> None:
        self._checkpoint, self._entries, self._row_ids, self._batch = checkpoint, entries, row_ids, batch

    @property
    def is_done(self) -> bool:
        """Whether `finish` would return at once."""
        return self._batch.wait(0.0)

    def finish(self) -> list[Rows]:
        """Waits; the rows of each tensor, uint8 [rows, width], as they are in the file that was opened.

        Raises FileChangedError when they could not be read or the file is another by now, ValueError when the
        checkpoint was closed.
        """
        while not self._batch.wait(WAIT_SECONDS):
            pass
        # The checkpoint's own word on a vanished or shortened file comes first: it says more.
        for name in dict.fromkeys(entry.name for entry in self._entries):
            self._checkpoint.check(name)
        if (failure := self._batch.failure()) is not None:
            raise self._problem(*failure)
        widths = [_width(entry) for entry in self._entries]
        out = np.empty(len(self._row_ids) * sum(widths), dtype=np.uint8)
        self._batch.copy_to(out.ctypes.data)
        ends = np.cumsum([len(self._row_ids) * width for width in widths])
        parts = np.split(out, ends[:-1])
        return [part.reshape(-1, width) for part, width in zip(parts, widths, strict=True)]

    def cost(self) -> ReadCost:
        """After `finish`."""
        return ReadCost(self._batch.reads, self._batch.nbytes_read)

    def _problem(self, span: int, error: int) -> Exception:
        entry, row = self._entries[span // len(self._row_ids)], int(self._row_ids[span % len(self._row_ids)])
        if error == errno.ECANCELED:
            return ValueError(f"the row reader of `{self._checkpoint.directory}` was closed while it read")
        where = f"row {row:,} of `{entry.name}` at byte {entry.start + row * _width(entry):,}"
        if error:
            return _unreadable(entry, f"{os.strerror(error)}, reading {where}")
        return FileChangedError(f"`{entry.path}` was shortened: it ends before {where}", hint=_RESTART)


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


def _row_nbytes(entry: TensorEntry, row_ids: Ids) -> int:
    """The width of a row, of which those of `row_ids` must exist."""
    assert row_ids.ndim == 1 and row_ids.dtype == np.int64, (row_ids.shape, row_ids.dtype)
    outside = row_ids[(row_ids < 0) | (row_ids >= entry.shape[0])]
    if len(outside):
        found = f"row {outside[0]} of `{entry.name}` in `{entry.path}` does not exist"
        raise TensorError(f"{found}, expected one from 0 to {entry.shape[0] - 1}")
    width = _width(entry)
    if width > native.MOST_ROW_NBYTES:
        found = f"a row of `{entry.name}` in `{entry.path}` has {width:,} bytes"
        raise TensorError(f"{found}, expected at most {native.MOST_ROW_NBYTES:,}")
    return width


def _width(entry: TensorEntry) -> int:
    return entry.nbytes // entry.shape[0]


def _unreadable(entry: TensorEntry, reason: str) -> FileChangedError:
    return FileChangedError(f"`{entry.path}` became unreadable: {reason}", hint=_RESTART)


_RESTART = "a checkpoint must not be touched while it is in use; restart once it is complete"
