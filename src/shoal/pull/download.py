"""One file: fetched piece by piece, taken up where it broke off, checked, and only then given its name."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from shoal.checkpoint.json_object import quoted
from shoal.errors import CheckpointError, OptionError
from shoal.pull.part_file import PartFile
from shoal.pull.remote_file import RemoteFile
from shoal.pull.repository import ConnectionLostError, Repository

# A hub's storage sends no more than 50 GB in one answer; a new one every GiB also renews its address.
PIECE_NBYTES = 1 << 30
MOST_FRUITLESS_TRIES = 6
FIRST_WAIT_SECONDS = 1.0


class StoppedError(Exception):
    """The pull ends early; what has arrived stays."""


@dataclass
class Progress:
    """Bytes here, of all that were wanted, as they arrive; shared by the threads of a pull."""

    here: int
    total: int
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, nbytes: int) -> None:
        """Counts what arrived. Raises StoppedError once the pull is to end."""
        with self._lock:
            self.here += nbytes
        self.check()

    def drop(self, nbytes: int) -> None:
        """Counts what was thrown away."""
        with self._lock:
            self.here -= nbytes

    def check(self) -> None:
        """Raises StoppedError once the pull is to end."""
        if self.stop.is_set():
            raise StoppedError

    def wait(self, seconds: float) -> None:
        """As long as that, or until the pull is to end, which raises StoppedError."""
        self.stop.wait(seconds)
        self.check()


def fetch(
    repository: Repository, file: RemoteFile, part: PartFile, progress: Progress, tell: Callable[[str], None]
) -> None:
    """Appends to `part` until it is as long as `file`; a lost connection is taken up again, and said.

    Raises OptionError when none of `MOST_FRUITLESS_TRIES` brings a byte, CheckpointError when the hub sends another
    file than it lists, and StoppedError.
    """
    tries = 0
    while part.nbytes < file.nbytes:
        before, problem = part.nbytes, ConnectionLostError("the answer ended early")
        try:
            _fetch_piece(repository, file, part, progress)
            if part.nbytes > before:
                tries = 0
                continue
        except ConnectionLostError as lost:
            problem = lost
        tries = 1 if part.nbytes > before else tries + 1
        where = f"{quoted(file.path)} broke off at byte {part.nbytes:,} of {file.nbytes:,}: {problem}"
        if tries >= MOST_FRUITLESS_TRIES:
            raise OptionError(where, hint="what has arrived is kept; run the command again")
        seconds = max(problem.wait_seconds, FIRST_WAIT_SECONDS * 2 ** (tries - 1))
        tell(f"{where}; trying again in {seconds:.0f} s")
        progress.wait(seconds)


def _fetch_piece(repository: Repository, file: RemoteFile, part: PartFile, progress: Progress) -> None:
    end = min(part.nbytes + PIECE_NBYTES, file.nbytes)
    for chunk in repository.read(file, part.nbytes, end):
        part.append(chunk)
        progress.add(len(chunk))


def fetch_checked(
    repository: Repository, file: RemoteFile, part: PartFile, progress: Progress, tell: Callable[[str], None]
) -> None:
    """As `fetch`, and checks the bytes. A part that cannot become the file is removed before the error.

    Raises as `fetch` does, and CheckpointError for bytes that are not the file's.
    """
    try:
        fetch(repository, file, part, progress, tell)
        part.check()
    except CheckpointError:
        discard(part, progress)
        raise


def discard(part: PartFile, progress: Progress) -> None:
    """Removes a part and what was counted of it."""
    part.discard()
    progress.drop(part.nbytes)
