"""One open shard: mapped read-only, read with `preadv`, refused once its file is no longer the same."""

import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.dlpack import from_dlpack

from shoal.checkpoint.header import TensorEntry, open_shard, read_header_from
from shoal.checkpoint.huge_pages import room_for
from shoal.checkpoint.json_object import quoted
from shoal.checkpoint.page_cache import cached_pages
from shoal.errors import CheckpointError, FileChangedError

# Linux moves at most 2 GiB a call and says so by a short read; macOS refuses more instead.
MAX_READ_NBYTES = 1 << 30


class FileIdentity(NamedTuple):
    """What must stay equal for the bytes at a path to be those whose header was checked."""

    device: int
    inode: int
    nbytes: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileIdentity":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class ShardFile:
    """A shard, open until `close`. Reads from several threads at once are fine."""

    def __init__(self, path: Path) -> None:
        """Opens, maps and checks the header of the file at the absolute `path`, following symlinks.

        Raises HeaderError when it is no whole shard and CheckpointError when it cannot be mapped.
        """
        self.path = path
        with open_shard(path) as file:
            self._identity = FileIdentity.of(os.fstat(file.fileno()))
            self.header = read_header_from(file, path)
            try:
                self._bytes = _map_read_only(file.fileno(), self._identity.nbytes)
                self._fd = os.dup(file.fileno())
            except OSError as problem:
                raise CheckpointError(f"{quoted(path)} cannot be mapped: {problem.strerror}") from problem

    def __enter__(self) -> "ShardFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. Views taken before stay valid: the mapping goes with the last of them."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._bytes = torch.empty(0, dtype=torch.uint8)

    @property
    def identity(self) -> FileIdentity:
        """What `check` wants of the file at the path."""
        return self._identity

    @property
    def device(self) -> int:
        """The number of the file system that the shard is on."""
        return self._identity.device

    def check(self) -> None:
        """Raises FileChangedError unless the path still names the opened file, its size and time unchanged.

        One `stat` of the path says it all: while the file is held open no other can get its inode number.
        """
        if self._fd < 0:
            raise ValueError(f"the checkpoint shard {quoted(self.path)} is closed")
        try:
            found = FileIdentity.of(self.path.stat())
        except OSError as problem:
            raise FileChangedError(
                f"{quoted(self.path)} is gone since it was opened: {problem.strerror}", hint=_RESTART
            ) from problem
        if found != self._identity:
            raise FileChangedError(f"{quoted(self.path)} {_difference(self._identity, found)}", hint=_RESTART)

    def reopen(self, flags: int = 0) -> int:
        """A descriptor of its own onto the same file, read-only with `flags` added; whoever asks closes it.

        Raises FileChangedError where the path names another file by now, OSError where the system refuses.
        """
        self.check()
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | flags)
        try:
            found = FileIdentity.of(os.fstat(fd))
            if found != self._identity:
                raise FileChangedError(f"{quoted(self.path)} {_difference(self._identity, found)}", hint=_RESTART)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def cached_nbytes(self, entry: TensorEntry) -> int:
        """How much of a tensor the page cache holds, whole pages counted."""
        if not entry.nbytes:
            return 0
        return min(entry.nbytes, cached_pages(self.view(entry).data_ptr(), entry.nbytes) * mmap.PAGESIZE)

    def view(self, entry: TensorEntry) -> torch.Tensor:
        """The bytes of a tensor in the mapping, uint8 [nbytes], checked but not read."""
        self.check()
        return self._bytes[entry.start : entry.end]

    def read(self, spans: Iterable[tuple[int, int]], nbytes: int) -> torch.Tensor:
        """The bytes `start` to `end` (absolute) of each span, end to end: uint8 [nbytes].

        `nbytes` is the sum of the spans. Raises FileChangedError, also for a change while it was being read.
        """
        out = room_for(nbytes)
        view = out.numpy().data
        filled = 0
        self.check()
        for start, end in spans:
            self._read_into(view[filled : filled + end - start], start)
            filled += end - start
        self.check()
        assert filled == nbytes, (filled, nbytes)
        return out

    def _read_into(self, view: memoryview, start: int) -> None:
        """Fills `view` from byte `start`; a read may return less than asked without the file having ended."""
        filled = 0
        while filled < len(view):
            try:
                got = os.preadv(self._fd, [view[filled : filled + MAX_READ_NBYTES]], start + filled)
            except OSError as problem:
                found = f"became unreadable at byte {start + filled:,}: {problem.strerror}"
                raise FileChangedError(f"{quoted(self.path)} {found}", hint=_RESTART) from problem
            if got == 0:
                found = f"at byte {start:,} found {filled:,} bytes, expected {len(view):,}"
                raise FileChangedError(f"{quoted(self.path)} was shortened: {found}", hint=_RESTART)
            filled += got


def _map_read_only(fd: int, nbytes: int) -> torch.Tensor:
    """The whole file as uint8 [nbytes]; a write through it ends the process.

    Shared and without write permission, so that no memory is set aside for it: a private writable mapping, as
    safetensors' torch reader makes, of a 94 GiB table is refused on a machine with less memory.
    """
    mapping = mmap.mmap(fd, nbytes, access=mmap.ACCESS_READ)
    array: npt.NDArray[np.uint8] = np.frombuffer(mapping, dtype=np.uint8)
    # Not `torch.frombuffer`, which warns that the buffer is not writable.
    return from_dlpack(array)


def _difference(opened: FileIdentity, found: FileIdentity) -> str:
    if found[:2] != opened[:2]:
        return "was replaced by another file since it was opened"
    if found.nbytes != opened.nbytes:
        return f"changed size since it was opened: found {found.nbytes:,} bytes, expected {opened.nbytes:,}"
    times = f"found mtime {found.mtime_ns} ns, expected {opened.mtime_ns} ns"
    return f"was written to since it was opened: {times}"


_RESTART = "a checkpoint must not be touched while it is in use; restart once it is complete"
