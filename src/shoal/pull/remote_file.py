"""A file as a hub lists it: where it goes, how long it is, and what its bytes hash to. Standard library only."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from shoal.checkpoint.index import SHARD_SUFFIX
from shoal.checkpoint.json_object import quoted
from shoal.errors import CheckpointError

WORK_DIRECTORY = ".pull"
"""Inside the directory that is filled: what has not arrived whole, and receipts for what has."""

READ_NBYTES = 1 << 20
_SHORT_DIGEST = 16


class Hasher(Protocol):
    """What `hashlib` gives."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass(frozen=True)
class Digest:
    """What a file's bytes hash to: `sha256`, or `git` where a hub knows only the blob's name in git."""

    kind: str
    hex: str

    def hasher(self, nbytes: int) -> Hasher:
        """What computes it for a file of `nbytes` bytes."""
        if self.kind == "sha256":
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % nbytes, usedforsecurity=False)


@dataclass(frozen=True)
class RemoteFile:
    """`path` is relative to the repository, its parts between slashes; `digest` None where no hub says it."""

    path: str
    nbytes: int
    digest: Digest | None

    @property
    def is_shard(self) -> bool:
        """Whether it holds tensors."""
        return self.path.endswith(SHARD_SUFFIX)

    def final_path(self, out: Path) -> Path:
        """Where it is once it is whole and checked."""
        return out / self.path

    def part_path(self, out: Path, commit: str) -> Path:
        """Where it grows. The name holds the content's, so that no other version is ever continued."""
        content = self.digest.hex if self.digest else commit
        return out / WORK_DIRECTORY / f"{self.path}.{content[:_SHORT_DIGEST]}.part"


def check_path(path: str, where: str) -> None:
    """Raises CheckpointError for a path that would leave the directory or hide in it; `where` lists it."""
    parts = PurePosixPath(path).parts
    plain = path == "/".join(parts) and path.isprintable() and "\\" not in path
    if not plain or path.startswith("/") or ".." in parts or parts[:1] in ((), (WORK_DIRECTORY,)):
        raise CheckpointError(f"{quoted(where)} lists a file {quoted(path)}, expected a plain path inside it")


def hash_file(file: BinaryIO, hasher: Hasher, progress: Callable[[int], None]) -> None:
    """Feeds `file` from its beginning to `hasher`; `progress` takes the bytes of each read, and may raise."""
    file.seek(0, os.SEEK_SET)
    while data := file.read(READ_NBYTES):
        progress(len(data))
        hasher.update(data)
