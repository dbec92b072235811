"""Routed experts in a budget of memory: whole experts in slots, read past the page cache while others are computed."""

import time
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence

from shoal.errors import OptionError
from shoal.ops.mixture import ExpertWeights
from shoal.plan.size import gib
from shoal.weights.arena import Arena
from shoal.weights.expert_key import Key
from shoal.weights.expert_policy import DecayedFrequency, ExpertPolicy
from shoal.weights.expert_slots import ExpertSlots
from shoal.weights.expert_source import ExpertSource
from shoal.weights.expert_statistics import ExpertStatistics
from shoal.weights.memory_watch import MemoryWatch
from shoal.weights.prefetch_gauge import PrefetchGauge
from shoal.weights.read_job import ReadJob, Urgency

READER_THREADS = 2
MOST_AHEAD = 12
"""Slots for what may be asked for next: twice the experts that a layer of the release gives a token."""

Group = list[tuple[int, ExpertWeights]]


def slots_within(source: ExpertSource, nbytes: int) -> int:
    """How many experts `nbytes` hold, at most all there are. OptionError when it is none."""
    num_slots = min(nbytes // source.slot_nbytes, len(source.keys))
    if num_slots < 1:
        raise OptionError(
            f"{nbytes:,} bytes of memory for experts hold none, expected at least {source.slot_nbytes:,}",
            hint=f"one expert takes {gib(source.slot_nbytes)}; the more fit, the fewer are read anew at every step",
        )
    return num_slots


class CachedExperts:
    """An `Experts` of `num_slots` slots before a source. For one caller at a time; others read.

    Experts asked for and missing are read at once, into slots whose experts are not asked for; the others wait for
    the slots of those already given out. `pinned` experts, fewer than the slots, stay once they are there. With
    `prefetch`, what is expected is read ahead while the disk would rest, as long as that pays: it moves reads, and
    changes nothing else. Memory that `watch` says is lost is given back, and taken again once it is not.
    """

    def __init__(
        self,
        source: ExpertSource,
        num_slots: int,
        *,
        policy: ExpertPolicy | None = None,
        pinned: Collection[Key] = (),
        prefetch: bool = True,
        num_threads: int = READER_THREADS,
        watch: MemoryWatch | None = None,
    ) -> None:
        self.source, self.arena = source, Arena(source.slot_nbytes, num_slots)
        self.statistics = ExpertStatistics()
        self._slots = ExpertSlots(num_slots, policy or DecayedFrequency(), pinned)
        self._weights = dict[Key, ExpertWeights]()
        self._watch, self._retired = watch, list[int]()
        self._jobs = dict[Key, ReadJob]()
        self._warmed = set[Key]()
        # Expected of the next layer: coming or held, until a layer asks.
        self._ahead, self._has_guess = dict[Key, ReadJob](), False
        self._gauge = PrefetchGauge() if prefetch else None
        # What is asked for: not yet in a slot, and in one but not yet given out.
        self._demand: tuple[int, tuple[int, ...]] | None = None
        self._waiting, self._expected = list[Key](), list[Key]()
        self._is_closed = False
        self._reader = source.reader(num_threads)
        weakref.finalize(self, self._reader.stop)

    def close(self) -> None:
        """Ends the reads and closes the source; ValueError for what is asked after that."""
        self._is_closed = True
        self._reader.close()
        self.source.close()

    def warm(self, keys: Sequence[Key]) -> None:
        """Begins to read experts, the first ones first, into slots that are free; anything asked for goes before."""
        for key in keys:
            if not self._slots.has_free:
                return
            if key not in self._slots:
                self._begin(key, Urgency.WARM)
                self._warmed.add(key)
                self.statistics.warmed += 1

    def request(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """Begins to read those that are missing. Lets go of what was asked for before."""
        if self._is_closed:
            raise ValueError("the expert store is closed")
        self._expected, self._waiting = [], []
        self._collect(self._reader.done())
        keys = [(layer_id, expert_id) for expert_id in expert_ids]
        self._settle_ahead(keys)
        if self._watch is not None:
            self._slots.needed.clear()
            self._fit(self._watch.lost())
        self._demand = layer_id, tuple(expert_ids)
        self._slots.policy.visit(layer_id, expert_ids)
        self._slots.needed = {key for key in keys if key in self._slots}
        self._expected = [key for key in keys if key in self._slots]
        self._waiting = [key for key in keys if key not in self._slots]
        self._count(keys)
        for key in self._expected:
            if (job := self._jobs.get(key)) is not None:
                self._reader.hurry(job)
        self._begin_waiting()

    def expect(self, layer_id: int, guess: Callable[[], Sequence[int]]) -> None:
        """Begins to read those missing of a guess, the likeliest first, after all that is asked for.

        Lets go of what was expected before. Not asked for its guess while reading ahead does not pay.
        """
        if self._gauge is None or self._is_closed or not self._gauge.wants_guess():
            return
        self._withdraw_ahead()
        self._has_guess = True
        for key in [(layer_id, expert_id) for expert_id in guess()]:
            if len(self._ahead) == MOST_AHEAD:
                return
            if key in self._slots or key in self._waiting:
                continue
            if (taken := self._slots.take_ahead(key, self._ahead)) is not None:
                self._ahead[key] = self._submit(key, taken, Urgency.AHEAD)

    def arrivals(self, layer_id: int, expert_ids: Sequence[int]) -> Iterator[Group]:
        """Those present first, in one group, then the others as they come."""
        if self._demand != (layer_id, tuple(expert_ids)):
            self.request(layer_id, expert_ids)
        self._demand = None
        while self._expected or self._waiting:
            given = self._next_group()
            yield [(key[1], self._weights[key]) for key in given]
            # Only now: the group was in use until the next one was asked for. After the last it is until `request`.
            if self._expected or self._waiting:
                self._slots.needed.difference_update(given)

    def _fit(self, lost: int) -> None:
        """As many slots in use as the arena less `lost` bytes holds, or as near as can be now; one at least."""
        wanted = max(1, (self.arena.nbytes - lost) // self.arena.slot_nbytes)
        while self._slots.num_slots > wanted and (taken := self._slots.retire()) is not None:
            slot, gone = taken
            self._let_go(gone)
            self.arena.release(slot)
            self._retired.append(slot)
        while self._slots.num_slots < wanted:
            self._slots.reuse(self._retired.pop())

    def _next_group(self) -> list[Key]:
        """Every expected expert that is there, at least one; waits for it. Raises what prevented one."""
        self._collect(self._reader.done())
        self._begin_waiting()
        while not (ready := [key for key in self._expected if self._slots.is_held(key)]):
            started = time.perf_counter()
            # For any that is coming: one that nobody asks for any more may have to leave its slot first.
            done = self._reader.done(wait=True)
            self.statistics.stall_seconds += time.perf_counter() - started
            self._collect(done)
            self._begin_waiting()
        self._expected = [key for key in self._expected if not self._slots.is_held(key)]
        return ready

    def _begin_waiting(self) -> None:
        """Slots for as many of the waiting as there are, and their reads begun."""
        while self._waiting:
            key = self._waiting[0]
            if not self._begin(key, Urgency.DEMAND):
                return
            del self._waiting[0]
            self._slots.needed.add(key)
            self._expected.append(key)

    def _begin(self, key: Key, urgency: Urgency) -> bool:
        if not self._slots.has_free and (withdrawn := self._reader.withdraw_last()) is not None:
            self._forget(withdrawn.key)
        if (taken := self._slots.take(key)) is None:
            return False
        self._submit(key, taken, urgency)
        return True

    def _submit(self, key: Key, taken: tuple[int, Key | None], urgency: Urgency) -> ReadJob:
        slot, gone = taken
        self._let_go(gone)
        job = self._jobs[key] = ReadJob(key, self.arena.slot(slot), urgency)
        self._reader.submit(job)
        return job

    def _let_go(self, gone: Key | None) -> None:
        """Whoever had a slot that another has now."""
        if gone is not None:
            del self._weights[gone]
            self._warmed.discard(gone)

    def _withdraw_ahead(self) -> None:
        """Gives back the slots of what is expected and not yet being read."""
        for key, job in list(self._ahead.items()):
            if self._reader.withdraw(job):
                self._forget(key)

    def _settle_ahead(self, asked: Collection[Key]) -> None:
        """A layer asks: what is expected is withdrawn, or if it has begun, it is known now whether it is of use."""
        if self._gauge is None or not self._has_guess:
            return
        self._withdraw_ahead()
        used = [key for key in self._ahead if key in asked and key in self._slots]
        self.statistics.prefetches += len(self._ahead)
        self.statistics.prefetches_used += len(used)
        self.statistics.prefetches_joined += sum(not self._slots.is_held(key) for key in used)
        self.statistics.wasted_nbytes += sum(self.source.nbytes(key) for key in self._ahead.keys() - used)
        self._gauge.judge(len(self._ahead), len(used))
        self._ahead, self._has_guess = {}, False

    def _collect(self, done: Sequence[ReadJob]) -> None:
        """Takes in what the threads have brought. Raises the problem of the first expected expert that has one."""
        failed = None
        for job in done:
            if job.weights is None:
                self._forget(job.key)
                # One that nobody waits for is tried again, and fails aloud, when it is asked for.
                failed = failed or (job.problem if job.key in self._expected else None)
                continue
            del self._jobs[job.key]
            self._weights[job.key] = job.weights
            self._slots.arrive(job.key)
            self.statistics.reads += 1
            self.statistics.read_nbytes += self.source.nbytes(job.key)
        if failed is not None:
            self._demand, self._expected, self._waiting = None, [], []
            raise failed

    def _forget(self, key: Key) -> None:
        """One that was coming does not."""
        del self._jobs[key]
        self._slots.give_back(key)
        self._slots.needed.discard(key)
        self._warmed.discard(key)
        self._ahead.pop(key, None)

    def _count(self, keys: Sequence[Key]) -> None:
        hits = sum(self._slots.is_held(key) for key in keys)
        self.statistics.hits += hits
        self.statistics.misses += len(keys) - hits
        used = self._warmed.intersection(keys)
        self.statistics.warmed_used += len(used)
        self._warmed -= used
