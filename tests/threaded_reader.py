"""Who reads experts of sources that are no files: threads of Python, by the rules of `shoal.weights.expert_reader`."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from shoal.ops.mixture import ExpertWeights
from shoal.weights.expert_key import Key
from shoal.weights.read_job import ReadJob, Urgency


@runtime_checkable
class SlowSource(Protocol):
    """Reads an expert when it is told to, and may take its time."""

    @property
    def keys(self) -> Sequence[Key]: ...

    def read(self, key: Key, room: Tensor) -> ExpertWeights: ...

    def disk(self, key: Key) -> int: ...


class DoneReads:
    """The jobs of all disks that are done and not yet taken. `lock` is that of all queues."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        # Of whoever waits for a job, and of nobody else: a wake-up costs more than what a reader does for an expert.
        self._arrived = threading.Condition(self.lock)
        self._jobs = list[ReadJob]()

    def put(self, *jobs: ReadJob) -> None:
        """They are done."""
        with self.lock:
            self._jobs += jobs
            self._arrived.notify_all()

    def take(self, wait: bool) -> list[ReadJob]:
        """Those done since the last call, with `wait` at least one."""
        with self.lock:
            if wait:
                self._arrived.wait_for(lambda: self._jobs)
            jobs, self._jobs = self._jobs, []
            return jobs


class ReadQueue:
    """What a disk's threads share with whoever waits, and nothing else: a store that is dropped is not kept by them."""

    def __init__(self, done: DoneReads) -> None:
        self._done, self._lock = done, done.lock
        # Of the disk's threads, which wait for a job that may begin.
        self._changed = threading.Condition(self._lock)
        self._waiting = {urgency: deque[ReadJob]() for urgency in Urgency}
        self._begun = list[ReadJob]()
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is being read."""
        with self._lock:
            return not self._begun and not any(self._waiting.values())

    def put(self, job: ReadJob) -> None:
        """The job waits. ValueError after `close`."""
        with self._lock:
            if self._is_closed:
                raise ValueError("the expert store is closed")
            self._waiting[job.urgency].append(job)
            self._changed.notify_all()

    def hurry(self, job: ReadJob) -> None:
        """The job is a demand from now on."""
        with self._lock:
            if job in (waiting := self._waiting[job.urgency]):
                waiting.remove(job)
                self._waiting[Urgency.DEMAND].append(job)
            job.urgency = Urgency.DEMAND
            self._changed.notify_all()

    def withdraw(self, job: ReadJob) -> bool:
        """Takes the job back; not when it has begun."""
        with self._lock:
            if job not in (waiting := self._waiting[job.urgency]):
                return False
            waiting.remove(job)
            return True

    def withdraw_last(self) -> ReadJob | None:
        """Takes back the last job that is no demand and has not begun."""
        with self._lock:
            waiting = self._waiting[Urgency.WARM] or self._waiting[Urgency.AHEAD]
            return waiting.pop() if waiting else None

    def take(self) -> ReadJob | None:
        """The next job, when it may begin; None once closed."""
        with self._lock:
            self._changed.wait_for(lambda: self._next() or self._is_closed)
            if self._is_closed or not (waiting := self._next()):
                return None
            self._begun.append(waiting.popleft())
            return self._begun[-1]

    def finish(self, job: ReadJob, weights: ExpertWeights | None, problem: BaseException | None) -> None:
        """A job that was taken is done."""
        with self._lock:
            job.weights, job.problem = weights, problem
            self._begun.remove(job)
            if any(self._waiting.values()):
                self._changed.notify_all()
            self._done.put(job)

    def close(self) -> None:
        """Fails what has not begun."""
        with self._lock:
            self._is_closed = True
            for waiting in self._waiting.values():
                for job in waiting:
                    job.problem = ValueError("the expert store is closed")
                self._done.put(*waiting)
                waiting.clear()
            self._changed.notify_all()

    def _next(self) -> deque[ReadJob] | None:
        """Where the job is that may begin, if there is one."""
        demands, ahead, warm = self._waiting.values()
        if demands:
            return demands
        if ahead:
            return None if self._begun else ahead
        return None if any(job.urgency == Urgency.DEMAND for job in self._begun) else warm


class ThreadedReader:
    """`num_threads` threads a disk that fill rooms from a source, by urgency and then in the order of submission.

    A disk has a queue and threads of its own, so that each is busy whatever the others do. A job that fails is done
    too: whoever waits for it is told why.
    """

    def __init__(self, source: SlowSource, num_threads: int) -> None:
        assert num_threads > 0, num_threads
        self._source, self._done = source, DoneReads()
        self._queues = {disk: ReadQueue(self._done) for disk in sorted({source.disk(key) for key in source.keys})}
        self._threads = [
            # Daemons: a program that ends does not wait for the disk.
            threading.Thread(target=_read_all, args=(queue, source), name=f"expert-reader-{disk}-{i}", daemon=True)
            for disk, queue in self._queues.items()
            for i in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted has been read or taken back."""
        return all(queue.is_idle for queue in self._queues.values())

    def submit(self, job: ReadJob) -> None:
        """Returns at once. ValueError after `close`."""
        self._queue_of(job).put(job)

    def hurry(self, job: ReadJob) -> None:
        """The job is a demand from now on."""
        self._queue_of(job).hurry(job)

    def withdraw(self, job: ReadJob) -> bool:
        """Takes the job back; not when it has begun."""
        return self._queue_of(job).withdraw(job)

    def withdraw_last(self) -> ReadJob | None:
        """Takes back the last job that is no demand and has not begun, of a disk that has one."""
        return next((job for queue in self._queues.values() if (job := queue.withdraw_last()) is not None), None)

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

    def _queue_of(self, job: ReadJob) -> ReadQueue:
        return self._queues[self._source.disk(job.key)]


def _read_all(queue: ReadQueue, source: SlowSource) -> None:
    while (job := queue.take()) is not None:
        try:
            weights, problem = source.read(job.key, job.room), None
        # Whatever it is, the one who waits must hear of it.
        except BaseException as caught:
            weights, problem = None, caught
        queue.finish(job, weights, problem)
        # Between jobs a thread keeps no slot.
        del job, weights, problem
