"""The expert reads of a disk that wait for their turn, and those of all disks that are done."""

import threading
from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum

from torch import Tensor

from shoal.ops.mixture import ExpertWeights
from shoal.weights.stored_experts import Key


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
