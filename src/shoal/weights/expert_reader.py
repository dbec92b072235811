"""Threads that read experts while the model computes, some for each disk. What is waited for is read first."""

import threading

from shoal.weights.read_queue import DoneReads, ReadJob, ReadQueue
from shoal.weights.stored_experts import ExpertSource


class ExpertReader:
    """`num_threads` threads a disk that fill rooms from a source, by urgency and then in the order of submission.

    A disk has a queue and threads of its own, so that each is busy whatever the others do. A job that fails is done
    too: whoever waits for it is told why.
    """

    def __init__(self, source: ExpertSource, num_threads: int) -> None:
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


def _read_all(queue: ReadQueue, source: ExpertSource) -> None:
    while (job := queue.take()) is not None:
        try:
            weights, problem = source.read(job.key, job.room), None
        # Whatever it is, the one who waits must hear of it.
        except BaseException as caught:
            weights, problem = None, caught
        queue.finish(job, weights, problem)
        # Between jobs a thread keeps no slot.
        del job, weights, problem
