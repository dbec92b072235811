"""Threads that read experts while the model computes, some for each disk. What is waited for is read first."""

import threading
from collections import deque
from dataclasses import dataclass, field

from torch import Tensor

from shoal.ops.mixture import ExpertWeights
from shoal.weights.stored_experts import ExpertSource, Key


@dataclass(eq=False)
class ReadJob:
    """An expert to be read into `room`. Once done it has weights or the problem that prevented them."""

    key: Key
    room: Tensor
    weights: ExpertWeights | None = field(default=None, init=False)
    problem: BaseException | None = field(default=None, init=False)


class ExpertReader:
    """`num_threads` threads a disk that fill rooms from a source, in the order of submission, until `close`.

    A disk has a queue and threads of its own, so that each is busy whatever the others do. A job that fails is done
    too: whoever waits for it is told why.
    """

    def __init__(self, source: ExpertSource, num_threads: int) -> None:
        assert num_threads > 0, num_threads
        self._source, self._done = source, _Done()
        self._queues = {disk: _Queue(self._done) for disk in sorted({source.disk(key) for key in source.keys})}
        self._threads = [
            # Daemons: a program that ends does not wait for the disk.
            threading.Thread(target=_read_all, args=(queue, source), name=f"expert-reader-{disk}-{i}", daemon=True)
            for disk, queue in self._queues.items()
            for i in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: ReadJob, *, urgent: bool = True) -> None:
        """Returns at once. What is not urgent is read when nothing urgent is left. ValueError after `close`."""
        self._queue_of(job).put(job, urgent)

    def hurry(self, job: ReadJob) -> None:
        """The job is waited for: it is urgent now, unless it has begun."""
        self._queue_of(job).hurry(job)

    def withdraw(self) -> ReadJob | None:
        """Takes back the last job that is not urgent and has not begun, of a disk that has one."""
        return next((job for queue in self._queues.values() if (job := queue.withdraw()) is not None), None)

    def done(self, *, wait: bool = False) -> list[ReadJob]:
        """The jobs done since the last call. With `wait`, which takes one that is under way, at least one."""
        return self._done.take(wait)

    def stop(self) -> None:
        """Tells the threads to end after the read they are at, and fails what has not begun."""
        for queue in self._queues.values():
            queue.close()

    def close(self) -> None:
        """Returns when the threads have ended: no room is written to after that."""
        self.stop()
        for thread in self._threads:
            thread.join()

    def _queue_of(self, job: ReadJob) -> "_Queue":
        return self._queues[self._source.disk(job.key)]


class _Done:
    """The jobs of all disks that are done and not yet taken. `changed` is notified of every change in any queue."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._jobs = list[ReadJob]()

    def put(self, *jobs: ReadJob) -> None:
        with self.changed:
            self._jobs += jobs
            self.changed.notify_all()

    def take(self, wait: bool) -> list[ReadJob]:
        with self.changed:
            if wait:
                self.changed.wait_for(lambda: self._jobs)
            jobs, self._jobs = self._jobs, []
            return jobs


class _Queue:
    """What a disk's threads share with whoever waits, and nothing else: a store that is dropped is not kept by them."""

    def __init__(self, done: _Done) -> None:
        self._done, self.changed = done, done.changed
        self._urgent, self._later = deque[ReadJob](), deque[ReadJob]()
        self._is_closed = False

    def put(self, job: ReadJob, urgent: bool) -> None:
        with self.changed:
            if self._is_closed:
                raise ValueError("the expert store is closed")
            (self._urgent if urgent else self._later).append(job)
            self.changed.notify_all()

    def hurry(self, job: ReadJob) -> None:
        with self.changed:
            if job in self._later:
                self._later.remove(job)
                self._urgent.append(job)

    def withdraw(self) -> ReadJob | None:
        with self.changed:
            return self._later.pop() if self._later else None

    def take(self) -> ReadJob | None:
        """The next job, when there is one; None once closed."""
        with self.changed:
            self.changed.wait_for(lambda: self._urgent or self._later or self._is_closed)
            if self._is_closed:
                return None
            return (self._urgent or self._later).popleft()

    def finish(self, job: ReadJob, weights: ExpertWeights | None, problem: BaseException | None) -> None:
        with self.changed:
            job.weights, job.problem = weights, problem
            self._done.put(job)

    def close(self) -> None:
        with self.changed:
            self._is_closed = True
            for job in (*self._urgent, *self._later):
                job.problem = ValueError("the expert store is closed")
                self._done.put(job)
            self._urgent.clear()
            self._later.clear()
            self.changed.notify_all()


def _read_all(queue: _Queue, source: ExpertSource) -> None:
    while (job := queue.take()) is not None:
        try:
            weights, problem = source.read(job.key, job.room), None
        # Whatever it is, the one who waits must hear of it.
        except BaseException as caught:
            weights, problem = None, caught
        queue.finish(job, weights, problem)
        # Between jobs a thread keeps no slot.
        del job, weights, problem
