"""Threads that read experts while the model computes. What is waited for is read first."""

import threading
from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum

from torch import Tensor

from shoal.ops.mixture import ExpertWeights
from shoal.weights.stored_experts import ExpertSource, Key


class Urgency(IntEnum):
    """Why an expert is read; what is of the first kind goes first.

    One read keeps a disk busy: what nobody waits for would only take from the speed of what somebody does. So a read
    ahead begins while nothing else is read, and one to warm the store while no demand is. Several reads ahead at once
    would all be half done when the demands come; one after the other, the likeliest is there.
    """

    DEMAND = 0
    AHEAD = 1
    WARM = 2


@dataclass(eq=False)
class ReadJob:
    """An expert to be read into `room`. Once done it has weights or the problem that prevented them."""

    key: Key
    room: Tensor
    urgency: Urgency = Urgency.DEMAND
    weights: ExpertWeights | None = field(default=None, init=False)
    problem: BaseException | None = field(default=None, init=False)


class ExpertReader:
    """`num_threads` threads that fill rooms from a source, by urgency and then in the order of submission.

    A job that fails is done too: whoever waits for it is told why.
    """

    def __init__(self, source: ExpertSource, num_threads: int) -> None:
        assert num_threads > 0, num_threads
        self._queue = _Queue()
        self._threads = [
            # Daemons: a program that ends does not wait for the disk.
            threading.Thread(target=_read_all, args=(self._queue, source), name=f"expert-reader-{i}", daemon=True)
            for i in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: ReadJob) -> None:
        """Returns at once. ValueError after `close`."""
        self._queue.put(job)

    def hurry(self, job: ReadJob) -> None:
        """The job is a demand from now on."""
        self._queue.hurry(job)

    def withdraw(self, job: ReadJob) -> bool:
        """Takes the job back; not when it has begun."""
        return self._queue.withdraw(job)

    def withdraw_last(self) -> ReadJob | None:
        """Takes back the last job that is no demand and has not begun."""
        return self._queue.withdraw_last()

    def done(self, *, wait: bool = False) -> list[ReadJob]:
        """The jobs done since the last call. With `wait`, which takes one that is under way, at least one."""
        return self._queue.done(wait)

    def stop(self) -> None:
        """Tells the threads to end after the read they are at, and fails what has not begun."""
        self._queue.close()

    def close(self) -> None:
        """Returns when the threads have ended: no room is written to after that."""
        self.stop()
        for thread in self._threads:
            thread.join()


class _Queue:
    """What the threads share with whoever waits, and nothing else: a store that is dropped is not kept by them."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._waiting = {urgency: deque[ReadJob]() for urgency in Urgency}
        self._begun, self._done = list[ReadJob](), list[ReadJob]()
        self._is_closed = False

    def put(self, job: ReadJob) -> None:
        with self.changed:
            if self._is_closed:
                raise ValueError("the expert store is closed")
            self._waiting[job.urgency].append(job)
            self.changed.notify_all()

    def hurry(self, job: ReadJob) -> None:
        with self.changed:
            if job in (waiting := self._waiting[job.urgency]):
                waiting.remove(job)
                self._waiting[Urgency.DEMAND].append(job)
            job.urgency = Urgency.DEMAND
            self.changed.notify_all()

    def withdraw(self, job: ReadJob) -> bool:
        with self.changed:
            if job not in (waiting := self._waiting[job.urgency]):
                return False
            waiting.remove(job)
            return True

    def withdraw_last(self) -> ReadJob | None:
        with self.changed:
            waiting = self._waiting[Urgency.WARM] or self._waiting[Urgency.AHEAD]
            return waiting.pop() if waiting else None

    def take(self) -> ReadJob | None:
        """The next job, when it may begin; None once closed."""
        with self.changed:
            self.changed.wait_for(lambda: self._next() or self._is_closed)
            if self._is_closed:
                return None
            queue = self._next()
            assert queue
            self._begun.append(queue.popleft())
            return self._begun[-1]

    def _next(self) -> deque[ReadJob] | None:
        """Where the job is that may begin."""
        demands, ahead, warm = self._waiting.values()
        if demands:
            return demands
        if ahead:
            return None if self._begun else ahead
        return None if any(job.urgency == Urgency.DEMAND for job in self._begun) else warm

    def finish(self, job: ReadJob, weights: ExpertWeights | None, problem: BaseException | None) -> None:
        with self.changed:
            job.weights, job.problem = weights, problem
            self._begun.remove(job)
            self._done.append(job)
            self.changed.notify_all()

    def done(self, wait: bool) -> list[ReadJob]:
        with self.changed:
            if wait:
                self.changed.wait_for(lambda: self._done)
            done, self._done = self._done, []
            return done

    def close(self) -> None:
        with self.changed:
            self._is_closed = True
            for waiting in self._waiting.values():
                for job in waiting:
                    job.problem = ValueError("the expert store is closed")
                self._done.extend(waiting)
                waiting.clear()
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
