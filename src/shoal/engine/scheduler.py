"""Who runs, who waits, and how many tokens each feeds in a step. Decisions only: no thread, no clock, no model.

The rules, in words a user could check:

* First come, first served: a sequence has a number, and who has the lower one is older. The oldest that waits is
  admitted as soon as fewer than `max_running` run and the room holds all it knows and a part of what it may still say
  (`RESERVE_TOKENS`). While it does not fit nobody younger is admitted, so a large one is not passed for ever. Only who
  is held back, because another sequence is computing the same prefix right now, lets others pass.
* In a step every sequence that lacks one token feeds it. What that leaves of `chunk_tokens`, one at least, goes to
  prompts: half to the oldest, the other half in equal shares to the others, where who needs less leaves the rest to
  who needs more. So the oldest prompt is read at half speed or better whatever comes, and a short one behind a long
  one is read beside it, not after it.
* A sequence takes room before it feeds. When none is left the youngest one running is pre-empted: it loses its cache
  and waits again in its old place, to be computed anew from the ids it knows. The oldest is never pre-empted, so
  something always ends.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from shoal.engine.kv_room import KvRoom

RESERVE_TOKENS = 256


class Schedulable(Protocol):
    """What the scheduler reads of a sequence."""

    @property
    def number(self) -> int:
        """Its place in the order of arrival."""
        ...

    @property
    def num_known(self) -> int:
        """Tokens of the prompt and of the answer so far; at least one of them is not in its cache."""
        ...

    @property
    def length(self) -> int:
        """Tokens in its cache."""
        ...

    @property
    def chunk_end(self) -> int:
        """The length at which the next chunk must end at the latest; above `length`, at most `num_known`."""
        ...

    @property
    def most_tokens(self) -> int:
        """Tokens that its cache can ever hold."""
        ...


Work = TypeVar("Work", bound=Schedulable)


@dataclass(frozen=True)
class Plan(Generic[Work]):
    """What a step feeds of whom, the oldest first, and who lost its cache to make room for that."""

    chunks: Sequence[tuple[Work, int]]
    preempted: Sequence[Work]


class Scheduler(Generic[Work]):
    """`waiting` and `running` are in order of age. A sequence is in one of them until it is removed."""

    def __init__(self, room: KvRoom, max_running: int, chunk_tokens: int) -> None:
        self.room, self.max_running, self.chunk_tokens = room, max_running, chunk_tokens
        self.waiting: list[Work] = []
        self.running: list[Work] = []
        self._held: dict[int, int] = {}

    def add(self, work: Work) -> None:
        """Let it wait; it fits into the room when it is alone."""
        insort(self.waiting, work, key=lambda each: each.number)

    def remove(self, work: Work) -> None:
        """It has ended, waiting or running."""
        if work in self.waiting:
            self.waiting.remove(work)
        else:
            self.running.remove(work)
            self._give(work)

    def admit(self, begin: Callable[[Work], bool]) -> None:
        """Let those run that may. `begin` is called with one that would fit, and says whether it runs from now on."""
        for work in tuple(self.waiting):
            if len(self.running) >= self.max_running:
                break
            tokens = self._pages(min(work.most_tokens, work.num_known + RESERVE_TOKENS))
            if not self.room.fits(tokens, 1):
                break
            if not begin(work):
                continue
            self.room.take(tokens, 1)
            self._held[work.number] = tokens
            self.waiting.remove(work)
            insort(self.running, work, key=lambda each: each.number)

    def plan(self) -> Plan[Work]:
        """The next step. Room for what it feeds is taken; only who was pre-empted feeds nothing."""
        counts = self._counts()
        preempted = []
        for work in tuple(self.running):
            while work in self.running and not self._grow(work, work.length + counts[work.number]):
                preempted.append(self.requeue(self.running[-1]))
        return Plan([(work, counts[work.number]) for work in self.running if counts[work.number]], preempted)

    def requeue(self, work: Work) -> Work:
        """One that runs waits again, in its old place."""
        self.running.remove(work)
        self._give(work)
        self.add(work)
        return work

    def _counts(self) -> dict[int, int]:
        lacking = {work.number: work.num_known - work.length for work in self.running}
        prompts = [work for work in self.running if lacking[work.number] > 1]
        tokens = max(1, self.chunk_tokens - (len(self.running) - len(prompts)))
        shares = share(tokens, [work.chunk_end - work.length for work in prompts])
        return lacking | {work.number: count for work, count in zip(prompts, shares, strict=True)}

    def _grow(self, work: Work, length: int) -> bool:
        """Whether it has room for `length` tokens now."""
        held = self._held[work.number]
        if length <= held:
            return True
        for wanted in (min(work.most_tokens, length + RESERVE_TOKENS), length):
            more = self._pages(wanted) - held
            if self.room.fits(more):
                self.room.take(more)
                self._held[work.number] = held + more
                return True
        return False

    def _give(self, work: Work) -> None:
        self.room.give(self._held.pop(work.number), 1)

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.room.page_tokens) * self.room.page_tokens


def share(tokens: int, wanted: Sequence[int]) -> list[int]:
    """How many of `tokens` each prompt gets, the oldest first; none gets more than it wants.

    Half for the oldest, rounded up; equal shares of the other half for the others, the small ones first so that what
    they leave reaches the large ones; what is left then to the oldest that want more.
    """
    if not wanted:
        return []
    given = [0] * len(wanted)
    given[0] = min(wanted[0], tokens - tokens // 2)
    left = tokens - given[0]
    others = sorted(range(1, len(wanted)), key=lambda i: (wanted[i], i))
    for done, i in enumerate(others):
        given[i] = min(wanted[i], -(-left // (len(others) - done)))
        left -= given[i]
    for i, count in enumerate(wanted):
        more = min(count - given[i], left)
        given[i], left = given[i] + more, left - more
    return given
