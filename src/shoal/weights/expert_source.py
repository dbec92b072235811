"""Where whole experts come from, and who reads them while a model computes."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from shoal.weights.expert_key import Key
from shoal.weights.read_job import ReadJob


@runtime_checkable
class JobReader(Protocol):
    """Does jobs by urgency and then in the order of submission, on each disk. For one caller at a time."""

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted has been read or taken back."""
        ...

    def submit(self, job: ReadJob) -> None:
        """Returns at once. ValueError after `stop`."""
        ...

    def hurry(self, job: ReadJob) -> None:
        """The job is a demand from now on."""
        ...

    def withdraw(self, job: ReadJob) -> bool:
        """Takes the job back; not when it has begun."""
        ...

    def withdraw_last(self) -> ReadJob | None:
        """Takes back the last job that is no demand and has not begun, of a disk that has one."""
        ...

    def done(self, *, wait: bool = False) -> list[ReadJob]:
        """The jobs done since the last call. With `wait`, which takes one that is under way, at least one."""
        ...

    def stop(self) -> None:
        """Fails what has not begun."""
        ...

    def close(self) -> None:
        """Returns when nothing is under way: no room is written to after that."""
        ...


@runtime_checkable
class ExpertSource(Protocol):
    """Where whole experts are read from."""

    @property
    def slot_nbytes(self) -> int:
        """Room that every expert fits in, whole pages."""
        ...

    @property
    def keys(self) -> Sequence[Key]:
        """Every expert there is."""
        ...

    def nbytes(self, key: Key) -> int:
        """Bytes that come from the disk for an expert."""
        ...

    def reader(self, num_threads: int) -> JobReader:
        """Who reads this source's experts, into rooms of uint8 [slot_nbytes] from a page on."""
        ...

    def close(self) -> None:
        """No read may be under way."""
        ...
