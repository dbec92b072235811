"""Experts read from shards while the model computes, by native threads that need no GIL. The most urgent come first."""

import errno
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import Tensor

import shoal._native as native
from shoal.checkpoint.direct_file import ALIGNMENT, DirectFile
from shoal.checkpoint.extents import Extent
from shoal.errors import ShoalError
from shoal.ops.mixture import ExpertWeights
from shoal.weights.expert_key import Key
from shoal.weights.read_job import ReadJob, Urgency

PIECE_NBYTES = 8 << 20
"""Of one read to the disk: an expert of the release is four, which come side by side."""
PIECES_A_THREAD = 4
"""Where a ring takes reads, as many for each thread that there would be without."""
# Of files and of what is in them, and of a store that is closed.
PROBLEMS = (ShoalError, OSError, ValueError)
# Between two looks at what else the process is told, as an interrupt.
WAIT_SECONDS = 0.1


@runtime_checkable
class ShardedExperts(Protocol):
    """Experts that lie in shards."""

    @property
    def keys(self) -> Sequence[Key]: ...

    def disk(self, key: Key) -> int:
        """A number of the disk that most of an expert is on: those of different disks do not wait for each other."""
        ...

    def extents(self, key: Key) -> Sequence[Extent]:
        """The reads that bring an expert."""
        ...

    def file(self, extent: Extent) -> DirectFile:
        """What an extent is read from. Raises FileChangedError."""
        ...

    def weights(self, key: Key, room: Tensor) -> ExpertWeights:
        """Where an expert lies in `room` once it has been read into it."""
        ...

    def new_scales(self, key: Key) -> Sequence[tuple[int, int]]:
        """Where in its room an expert has scales that were not looked at yet, [start, end) each."""
        ...

    def accept(self, key: Key, room: Tensor, *, has_nan: bool) -> None:
        """The expert was read into `room`, and `new_scales` looked at. Raises TensorError where one is NaN."""
        ...


@dataclass(frozen=True)
class _UnderWay:
    """A job, the native numbers of the files that its extents are read from, and its weights once they are there.

    They are made while the disk works: what is done after a sleep takes several times as long.
    """

    job: ReadJob
    files: tuple[int, ...]
    weights: ExpertWeights


class ExpertReader:
    """Fills rooms from the shards of a source, by urgency and then in the order of submission. For one caller.

    A disk has a queue of its own, so that each is busy whatever the others do. Of a job several pieces are under way
    at once, so that the first one has all of the disk. A job that fails is done too: whoever waits for it is told why.
    """

    def __init__(self, source: ShardedExperts, num_threads: int, *, uring: bool = True, shuffle: int = 0) -> None:
        """`num_threads` a disk where the system has no io_uring; `shuffle`, not 0, is the seed of another order."""
        assert num_threads > 0, num_threads
        self._source = source
        self._disks = {disk: place for place, disk in enumerate(sorted({source.disk(key) for key in source.keys}))}
        depth = PIECES_A_THREAD * num_threads
        self._native = native.PageReader(len(self._disks), depth, num_threads, PIECE_NBYTES, uring, shuffle)
        self._files, self._is_direct = dict[tuple[Path, int], int](), True
        self._under_way = dict[int, _UnderWay]()
        self._numbers = dict[ReadJob, int]()
        self._failed = list[ReadJob]()
        self._is_stopped = False
        # Before the rooms of its jobs go: they are written to until then.
        weakref.finalize(self, self._native.close)

    @property
    def kind(self) -> str:
        """`io_uring` or `threads`."""
        return self._native.kind

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted has been read or taken back."""
        return self._native.is_idle

    def submit(self, job: ReadJob) -> None:
        """Returns at once. ValueError after `stop`."""
        if self._is_stopped:
            raise ValueError("the expert store is closed")
        address = job.room.data_ptr()
        assert address % ALIGNMENT == 0, address
        try:
            extents = self._source.extents(job.key)
            files = tuple(self._file(extent) for extent in extents)
        # The one who waits must hear of it.
        except PROBLEMS as problem:
            job.problem = problem
            self._failed.append(job)
            return
        reads = [
            (file, extent.start, extent.nbytes, extent.wanted, address + extent.place)
            for file, extent in zip(files, extents, strict=True)
        ]
        scales = [(address + start, end - start) for start, end in self._source.new_scales(job.key)]
        number = self._native.submit(self._disks[self._source.disk(job.key)], job.urgency, reads, scales)
        self._under_way[number] = _UnderWay(job, files, self._source.weights(job.key, job.room))
        self._numbers[job] = number

    def hurry(self, job: ReadJob) -> None:
        """The job is a demand from now on."""
        job.urgency = Urgency.DEMAND
        if job in self._numbers:
            self._native.hurry(self._numbers[job])

    def withdraw(self, job: ReadJob) -> bool:
        """Takes the job back; not when it has begun."""
        number = self._numbers.get(job)
        if number is None or not self._native.withdraw(number):
            return False
        self._take(number)
        return True

    def withdraw_last(self) -> ReadJob | None:
        """Takes back the last job that is no demand and has not begun, of a disk that has one."""
        number = self._native.withdraw_last()
        return self._take(number).job if number else None

    def done(self, *, wait: bool = False) -> list[ReadJob]:
        """The jobs done since the last call. With `wait`, which takes one that is under way, at least one."""
        done = list[ReadJob]()
        while True:
            must_wait = wait and not self._failed
            self._collect(done, self._native.take(WAIT_SECONDS if must_wait else 0.0))
            done += self._failed
            self._failed.clear()
            if done or not wait:
                return done

    def stop(self) -> None:
        """Ends after what is under way, and fails what has not begun."""
        self._is_stopped = True
        self._native.stop()

    def close(self) -> None:
        """Returns when nothing is under way: no room is written to after that."""
        self._is_stopped = True
        self._native.close()

    def _file(self, extent: Extent) -> int:
        """The native reader's number of the file that an extent is read from."""
        file = self._source.file(extent)
        number = self._files.get((file.path, file.fd))
        if number is None:
            number = self._native.add_file(file.fd, file.is_direct, os.fsencode(file.path), *file.identity)
            self._files[file.path, file.fd] = number
            self._is_direct &= file.is_direct
        return number

    def _collect(self, done: list[ReadJob], answers: Sequence[tuple[int, bool, bool, int, int, int]]) -> None:
        for number, has_nan, has_failed, read, error, filled in answers:
            over = self._take(number)
            job = over.job
            try:
                if has_failed:
                    self._look_into(over, read, error, filled)
                    self.submit(job)
                    continue
                if not self._is_direct:
                    self._forget(job.key)
                self._source.accept(job.key, job.room, has_nan=has_nan)
                job.weights = over.weights
            except PROBLEMS as problem:
                job.problem = problem
            done.append(job)

    def _forget(self, key: Key) -> None:
        for extent in self._source.extents(key):
            self._source.file(extent).forget(extent.start, extent.nbytes)

    def _look_into(self, over: _UnderWay, read: int, error: int, filled: int) -> None:
        """Raises why an extent of a job could not be read; returns where another try may do."""
        if error == errno.ECANCELED:
            raise ValueError("the expert store is closed")
        extent = self._source.extents(over.job.key)[read]
        file = self._source.file(extent)
        if error == errno.EINVAL:
            file.turn_to_page_cache(os.strerror(error))
            # Of several jobs that O_DIRECT was refused to, the first turns the file, and all are read again.
            if self._file(extent) != over.files[read]:
                return
        raise file.problem(extent.start, extent.wanted, filled, error)

    def _take(self, number: int) -> _UnderWay:
        taken = self._under_way.pop(number)
        del self._numbers[taken.job]
        return taken
