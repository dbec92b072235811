"""A file that is arriving: it grows under another name and gets its own once its bytes are right."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from shoal.checkpoint.json_object import quoted
from shoal.errors import CheckpointError, OptionError
from shoal.pull.remote_file import RemoteFile, hash_file

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_MODE = 0o666  # less the umask


class PartFile:
    """The beginning of `file`, at `path`; what is there already is kept."""

    def __init__(self, path: Path, file: RemoteFile, hashed: Callable[[int], None]) -> None:
        """`hashed` takes the bytes of what is there as they are read, and may raise. Raises OptionError."""
        self.path, self.file = path, file
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, _MODE)
        # Without a buffer: what has been appended is in the file, whatever ends this process.
        self._stream = os.fdopen(self._descriptor, "r+b", buffering=0)
        self._hasher = file.digest.hasher(file.nbytes) if file.digest else None
        try:
            self._take_up(hashed)
        except BaseException:
            self._stream.close()
            raise

    def _take_up(self, hashed: Callable[[int], None]) -> None:
        with writing(self.path):
            if os.fstat(self._descriptor).st_size > self.file.nbytes:
                self._stream.truncate(0)
            if self._hasher:
                hash_file(self._stream, self._hasher, hashed)
            self.nbytes = self._stream.seek(0, os.SEEK_END)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def append(self, data: bytes) -> None:
        """Raises CheckpointError for more bytes than the file has, OptionError when the disk takes no more."""
        if self.nbytes + len(data) > self.file.nbytes:
            raise CheckpointError(
                f"{quoted(self.file.path)} goes on after {self.file.nbytes:,} bytes, expected it to end there"
            )
        rest = memoryview(data)
        while rest:
            with writing(self.path):
                written = self._stream.write(rest)
            if self._hasher:
                self._hasher.update(bytes(rest[:written]))
            self.nbytes += written
            rest = rest[written:]

    def discard(self) -> None:
        """Removes it: its bytes are not those of the file."""
        self.path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raises CheckpointError unless the bytes are all there and have the digest that the hub lists."""
        if self.nbytes != self.file.nbytes:
            raise CheckpointError(
                f"{quoted(self.file.path)} arrived with {self.nbytes:,} bytes, expected {self.file.nbytes:,}"
            )
        if self._hasher and self.file.digest and (found := self._hasher.hexdigest()) != self.file.digest.hex:
            kind = "sha256" if self.file.digest.kind == "sha256" else "git blob id"
            raise CheckpointError(
                f"{quoted(self.file.path)} arrived with the {kind} {found}, expected {self.file.digest.hex}",
                hint="it was removed; run the command again to fetch it anew",
            )

    def finish(self, final: Path) -> None:
        """Gives it its own name, in the place of what has it. Raises OptionError."""
        with writing(final):
            # Before the name: a power cut must not leave a whole name on half the bytes.
            os.fsync(self._descriptor)
            final.parent.mkdir(parents=True, exist_ok=True)
            self.path.replace(final)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """An OSError becomes an OptionError that names `path`."""
    try:
        yield
    except OSError as problem:
        hint = "what has arrived is kept; free some space and run the command again"
        raise OptionError(
            f"{quoted(path)} cannot be written: {problem.strerror}", hint=hint if problem.errno in _FULL else None
        ) from None
