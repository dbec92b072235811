"""A directory of snapshot files that one process writes at a time: their names, sizes, times of use, and who goes.

`<first of the key>-<length>-<hash of key and ids>.kv`: the name says for whom a file is and how much it saves, so a
start reads names only. Names are not trusted: what is in a file is checked when it is used.
"""

import fcntl
import os
import re
import stat
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from shoal.checkpoint.direct_file import Notice
from shoal.checkpoint.said_once import SaidOnce
from shoal.errors import OptionError

LOCK = "lock"
_NAME = re.compile(r"[0-9a-f]{16}-[1-9][0-9]{0,9}-[0-9a-f]{32}\.kv")
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}-[1-9][0-9]{0,9}-[0-9a-f]{32}\.kv\..*")


@dataclass
class StoredFile:
    """A file of the directory, by name; `used` is when it last was of use, in ns."""

    name: str
    nbytes: int
    used: int

    @property
    def group(self) -> str:
        """The first of the key it was written under."""
        return self.name.split("-")[0]

    @property
    def length(self) -> int:
        """How many tokens it holds."""
        return int(self.name.split("-")[1])


class PrefixDirectory:
    """The files of `path`, at most `limit` bytes; least used go first. Any thread may ask."""

    def __init__(self, path: Path, limit: int, notice: Notice | None = None) -> None:
        """Raises OptionError when the directory can neither be made nor read."""
        self.path, self.limit, self._notice = path, limit, SaidOnce(notice)
        self._files: dict[str, StoredFile] = {}
        self._lock: BinaryIO | None = None
        self._seen_ns = -1
        self._changing = threading.RLock()
        try:
            # Whoever may read the files may read what people wrote.
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            problem = self._acquire()
            if problem is not None:
                self._scan()
        except OSError as error:
            raise OptionError(f"`{path}` cannot keep prefixes: {error.strerror}") from None
        if problem is not None:
            self._notice(f"prefixes in `{path}` are read and none are written: {problem}")
        self.make_room(0)

    @property
    def is_ours(self) -> bool:
        """Whether this process may write: it is the first, or the one before has ended."""
        with self._changing:
            return self._lock is not None or self._acquire() is None

    @property
    def nbytes(self) -> int:
        """Of all files."""
        with self._changing:
            return sum(file.nbytes for file in self._files.values())

    def files(self) -> list[StoredFile]:
        """What is there now; who does not write looks again when the directory has changed."""
        with self._changing:
            if self._lock is None:
                with suppress(OSError):
                    if self.path.stat().st_mtime_ns != self._seen_ns:
                        self._scan()
            return list(self._files.values())

    def close(self) -> None:
        """Let another process write."""
        with self._changing:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def touch(self, name: str) -> None:
        """The file was of use now."""
        with self._changing, suppress(OSError):
            if name in self._files:
                self._files[name].used = time.time_ns()
                os.utime(self.path / name)

    def add(self, name: str) -> None:
        """The file has been written."""
        with self._changing:
            status = (self.path / name).stat()
            self._files[name] = StoredFile(name, status.st_size, time.time_ns())

    def remove(self, name: str) -> None:
        """The file is of no use; only who writes takes it off the disk."""
        with self._changing:
            self._files.pop(name, None)
            if self._lock is not None:
                with suppress(OSError):
                    (self.path / name).unlink()

    def make_room(self, nbytes: int) -> None:
        """Remove the least used files until `nbytes` more fit the limit."""
        with self._changing:
            over = self.nbytes + nbytes - self.limit
            for file in sorted(self._files.values(), key=lambda file: file.used):
                if over <= 0 or self._lock is None:
                    break
                over -= file.nbytes
                self.remove(file.name)

    def _acquire(self) -> str | None:
        """Why this process cannot write; None when it can."""
        try:
            file = (self.path / LOCK).open("ab")
        except OSError as error:
            return error.strerror or str(error)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            return "another process uses it" if isinstance(error, BlockingIOError) else error.strerror
        self._lock = file
        self._scan()
        return None

    def _scan(self) -> None:
        self._seen_ns = self.path.stat().st_mtime_ns
        files, foreign = dict[str, StoredFile](), list[str]()
        with os.scandir(self.path) as entries:
            for entry in entries:
                if _TEMPORARY.fullmatch(entry.name):
                    if self._lock is not None:  # whoever wrote it was killed
                        (self.path / entry.name).unlink(missing_ok=True)
                elif _NAME.fullmatch(entry.name) and (file := _stored(entry)) is not None:
                    files[entry.name] = file
                elif entry.name != LOCK:
                    foreign.append(entry.name)
        if foreign:
            others = f" and {len(foreign) - 1:,} more" if len(foreign) > 1 else ""
            self._notice(f"`{self.path / min(foreign)}`{others}: not a prefix of Shoal's, left as it is")
        self._files = files


def _stored(entry: "os.DirEntry[str]") -> StoredFile | None:
    """None for what is no file: a link or a pipe is not opened."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # the process that writes has removed it
        return None
    return StoredFile(entry.name, status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None
