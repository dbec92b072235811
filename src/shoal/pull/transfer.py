"""All that a plan misses, several files at once: small ones first, since they say whether the rest is wanted."""

import fcntl
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shoal.checkpoint.index import INDEX_NAME, ShardIndex, read_index
from shoal.checkpoint.json_object import quoted
from shoal.errors import CheckpointError, OptionError, ShoalError
from shoal.pull.download import Progress, StoppedError, discard, fetch_checked
from shoal.pull.part_file import PartFile, writing
from shoal.pull.preflight import Plan, in_gib
from shoal.pull.receipts import Receipts
from shoal.pull.remote_file import WORK_DIRECTORY, RemoteFile
from shoal.pull.verify import check_model, check_shard

LOCK_NAME = "lock"
NUM_CONNECTIONS = 4


@dataclass(frozen=True)
class Outcome:
    """`missing` files were not fetched or were wrong; `failures` say why, one for each that was tried."""

    missing: tuple[RemoteFile, ...]
    failures: tuple[ShoalError, ...]


@dataclass
class Transfer:
    """One run of a plan. `tell` takes a line for each shard that lands and each connection that breaks."""

    plan: Plan
    receipts: Receipts
    tell: Callable[[str], None]
    num_connections: int = NUM_CONNECTIONS
    progress: Progress = field(init=False)
    _landed: set[str] = field(init=False, default_factory=set)
    _failures: list[ShoalError] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.progress = Progress(self.plan.nbytes_here, self.plan.nbytes)

    def run(self) -> Outcome:
        """Fetches what is missing. A file that is wrong does not stop the others; a full disk or no network does.

        Raises OptionError when another pull fills the directory or nothing can be written there, and ConfigError or
        ShardIndexError, before the first shard, when the repository is no model that Shoal runs.
        """
        missing = self.plan.missing
        with self._locked():
            self._discard_stale()
            self._save_receipts()
            self._fetch_all([file for file in missing if not file.is_shard], None)
            if not self._failures:
                index = self._read_index()
                check_model(self.plan.out, index)
                # The largest first: the last file to arrive should not be a hundred GiB behind the others.
                shards = [file for file in missing if file.is_shard]
                self._fetch_all(sorted(shards, key=lambda file: -file.nbytes), index)
        left = tuple(file for file in missing if file.path not in self._landed)
        return Outcome(left, tuple(self._failures))

    def _fetch_all(self, files: Sequence[RemoteFile], index: ShardIndex | None) -> None:
        with ThreadPoolExecutor(self.num_connections) as threads:
            try:
                pending = {threads.submit(self._land, file, index) for file in files}
                while pending:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    self._note(done)
            except BaseException:
                # Ctrl-C too, whenever it comes: threads that nobody stops would go on for hours.
                self.progress.stop.set()
                threads.shutdown(wait=True, cancel_futures=True)
                raise

    def _note(self, done: set[Future[None]]) -> None:
        for future in done:
            if future.cancelled():
                continue
            try:
                future.result()
            except StoppedError:
                pass
            except ShoalError as error:
                self._failures.append(error)
                if not isinstance(error, CheckpointError):
                    self.progress.stop.set()

    def _land(self, file: RemoteFile, index: ShardIndex | None) -> None:
        self.progress.check()
        out, repository = self.plan.out, self.plan.repository
        path = file.part_path(out, repository.commit)
        with PartFile(path, file, lambda nbytes: self.progress.check()) as part:
            fetch_checked(repository, file, part, self.progress, self.tell)
            num_tensors = self._check_shard(part, index) if file.is_shard else 0
            part.finish(file.final_path(out))
        self.receipts.add(file)
        self._landed.add(file.path)
        self._save_receipts()
        if file.is_shard:
            checked = "size" if file.digest is None else file.digest.kind
            self.tell(f"{file.path}: {in_gib(file.nbytes)}, {checked} and header right, {num_tensors:,} tensors")

    def _check_shard(self, part: PartFile, index: ShardIndex | None) -> int:
        try:
            return len(check_shard(part.path, part.file.path, index).tensors)
        except CheckpointError:
            discard(part, self.progress)
            raise

    def _read_index(self) -> ShardIndex | None:
        return read_index(self.plan.out / INDEX_NAME) if self.plan.repository.find(INDEX_NAME) else None

    def _save_receipts(self) -> None:
        with writing(self.plan.out / WORK_DIRECTORY):
            self.receipts.save()

    def _discard_stale(self) -> None:
        """Parts of other versions of the files: they would never be continued."""
        for file in self.plan.selected:
            current = file.part_path(self.plan.out, self.plan.repository.commit)
            if not current.parent.is_dir():
                continue
            for other in list(current.parent.glob("*.part")):
                if other != current and _without_digest(other) == _without_digest(current):
                    with writing(other):
                        other.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = self.plan.out / WORK_DIRECTORY / LOCK_NAME
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise OptionError(f"another pull is filling {quoted(self.plan.out)}, expected to be alone") from None
            yield


def _without_digest(part: Path) -> str:
    return part.name.removesuffix(".part").rpartition(".")[0]
