"""Snapshots of one model that survive a restart: written by one thread, found by their ids, loaded when they hit."""

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from shoal.checkpoint.direct_file import Notice
from shoal.checkpoint.said_once import SaidOnce
from shoal.config.schema import ModelConfig
from shoal.engine.prefix_directory import PrefixDirectory, StoredFile
from shoal.engine.prefix_tree import Ids
from shoal.errors import SnapshotError
from shoal.model.cache import SequenceCache
from shoal.model.snapshot import load_state, save_state

RETRY_SECONDS = 60.0
TOKEN_IDS = "token_ids"
# What a file has beside its tensors: the header.
HEADER_NBYTES = 64 << 10


@dataclass(frozen=True)
class DiskStatistics:
    """Files and bytes that are there, of other models too, and what this process did with its own."""

    files: int
    nbytes: int
    hits: int
    written: int
    damaged: int


class PrefixDisk:
    """What is of another key is not seen. What is damaged is said in one line, removed, and never an error.

    One thread may write while another finds and loads.
    """

    def __init__(
        self,
        directory: PrefixDirectory,
        key: str,
        config: ModelConfig,
        notice: Notice | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory, self._key, self._config, self._clock = directory, key, config, clock
        self._notice = SaidOnce(notice)
        self._group = key[:16]
        self._retry_at = clock()
        self._counting = threading.Lock()
        self._hits = self._written = self._damaged = 0
        self._say_what_is_of_others()

    def find(self, ids: Ids, above: int = 0) -> list[StoredFile]:
        """The files of proper beginnings of `ids` longer than `above`, the longest first."""
        lengths = {
            file.length
            for file in self.directory.files()
            if file.group == self._group and above < file.length < len(ids)
        }
        names, digest, start = list[str](), self._digest(), 0
        for length in sorted(lengths):
            digest.update(ids[start:length].tobytes())
            names.append(self._name(length, digest))
            start = length
        found = {file.name: file for file in self.directory.files()}
        return [found[name] for name in reversed(names) if name in found]

    def load(self, file: StoredFile, ids: Ids, cache: SequenceCache) -> bool:
        """Make `cache`, which has no token, that file's sequence; False where it is not what its name says."""
        path = self.directory.path / file.name
        try:
            if file.nbytes > (most := _most_nbytes(cache, file.length)):
                raise SnapshotError(f"the snapshot `{path}` has {file.nbytes:,} bytes, expected at most {most:,}")
            state, length = load_state(path, self._config, self._key)
            held = state.pop(TOKEN_IDS, None)
            if length != file.length or held is None or not torch.equal(held, torch.from_numpy(ids[:length].copy())):
                raise SnapshotError(f"the snapshot `{path}` is of another prompt than its name says")
            cache.load(state, length)
        except SnapshotError as problem:
            self._forget(file, path, problem)
            return False
        self.directory.touch(file.name)
        with self._counting:
            self._hits += 1
        return True

    def write(self, ids: Ids, state: dict[str, Tensor]) -> bool:
        """Write the state of the sequence `ids`; whether it is there now.

        Where it cannot be written that is said once, and all there is to write is refused for a minute.
        """
        digest = self._digest()
        digest.update(ids.tobytes())
        name = self._name(len(ids), digest)
        if name in self.directory:
            self.directory.touch(name)
            return True
        if self._clock() < self._retry_at or not self.directory.is_ours:
            return False
        state = state | {TOKEN_IDS: torch.from_numpy(ids.copy())}
        nbytes = sum(tensor.nbytes for tensor in state.values()) + HEADER_NBYTES
        if nbytes > self.directory.limit:
            self._notice(
                f"a prefix of {len(ids):,} tokens takes {nbytes:,} bytes on the disk, "
                f"expected at most {self.directory.limit:,} (`--cache-disk`): it is not written"
            )
            return False
        self.directory.make_room(nbytes)
        try:
            save_state(state, len(ids), self._config, self.directory.path / name, self._key)
            self.directory.add(name)
        except (SnapshotError, OSError) as problem:
            self._put_off(problem)
            return False
        with self._counting:
            self._written += 1
        return True

    def statistics(self) -> DiskStatistics:
        """As of now."""
        files = self.directory.files()
        with self._counting:
            counts = self._hits, self._written, self._damaged
        return DiskStatistics(len(files), sum(file.nbytes for file in files), *counts)

    def close(self) -> None:
        """Let another process write."""
        self.directory.close()

    def _digest(self) -> "hashlib._Hash":
        return hashlib.sha256(self._key.encode())

    def _name(self, length: int, digest: "hashlib._Hash") -> str:
        return f"{self._group}-{length}-{digest.hexdigest()[:32]}.kv"

    def _forget(self, file: StoredFile, path: Path, problem: SnapshotError) -> None:
        is_gone = not path.exists()
        self.directory.remove(file.name)
        if not is_gone:  # else the process that writes has removed it
            with self._counting:
                self._damaged += 1
            self._notice(f"{problem.message}; the prompt is computed instead")

    def _put_off(self, problem: SnapshotError | OSError) -> None:
        self._retry_at = self._clock() + RETRY_SECONDS
        # Without the file's name, so that it is said once of all of them.
        why = str(problem).split(": ")[-1]
        self._notice(
            f"prefixes cannot be written to `{self.directory.path}`: {why}; requests go on without, "
            f"and it is tried again every {RETRY_SECONDS:.0f} s"
        )

    def _say_what_is_of_others(self) -> None:
        others = [file for file in self.directory.files() if file.group != self._group]
        if others:
            nbytes = sum(file.nbytes for file in others)
            self._notice(
                f"{len(others):,} prefixes ({nbytes / 2**30:.2f} GiB) in `{self.directory.path}` are of another "
                "checkpoint, config, tokenizer or version: not used, and removed when room is needed"
            )


def _most_nbytes(cache: SequenceCache, length: int) -> int:
    """More than any file of `length` tokens has: what a hostile one may make this process read."""
    fixed, per_token = 0, 4
    for name, tensor in cache.state().items():
        row = tensor[:1].nbytes or tensor.new_empty((1, *tensor.shape[1:])).nbytes
        if name.startswith(("entries.", "index_keys.")):
            per_token += row
        else:
            fixed += tensor.nbytes + 64 * row
    return fixed + per_token * length + HEADER_NBYTES
