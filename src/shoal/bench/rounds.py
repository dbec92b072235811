"""The protocol of every measurement: probe and job by turns, disturbed rounds dropped and counted, then the median.

A round is disturbed when its probe is below 0.8 of the run's best, or when its threads did not get their processors:
the probe's processor time is below 0.97 of threads x wall, or a job's below 0.97 of that job's own best share (a job
with a serial part never has all threads busy). When more than half of the rounds are, the half with the best probes
is kept and the figure is marked as contended.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SLOWEST_PROBE, SMALLEST_SHARE = 0.8, 0.97

Job = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Wall seconds, and the share of threads x wall that the process computed."""

    seconds: float
    share: float


def timed(jobs: Sequence[Job], threads: int) -> Timing:
    """`jobs` one after another."""
    busy, started = time.process_time(), time.perf_counter()
    for job in jobs:
        job()
    seconds = time.perf_counter() - started
    return Timing(seconds, (time.process_time() - busy) / (seconds * threads))


@dataclass(frozen=True)
class Round:
    """The probe and, by name, the jobs that ran after it and what was counted of them. `probe_rate` is in bytes a
    second."""

    probe_rate: float
    probe_share: float
    jobs: Mapping[str, Timing]
    counts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Kept:
    """The rounds that count, in order."""

    rounds: Sequence[Round]
    dropped: int
    contended: bool

    @property
    def probe_rate(self) -> float:
        """The median, in bytes a second."""
        return statistics.median(each.probe_rate for each in self.rounds)

    def seconds(self, job: str) -> float:
        """The median of a job."""
        return statistics.median(each.jobs[job].seconds for each in self.rounds)

    def count(self, name: str) -> float:
        """The mean of what was counted: unlike a time it has no disturbed values."""
        return statistics.fmean(each.counts[name] for each in self.rounds)

    def median(self, figure: Callable[[Round], float]) -> float:
        """The median over the rounds of what `figure` makes of one."""
        return statistics.median(map(figure, self.rounds))


def of_disk(rate: float, seconds: float, job: str, counts: Mapping[str, float]) -> Round:
    """A round beside a disk probe. The processors' shares say nothing of it: who waits for a disk needs none."""
    return Round(rate, 1.0, {job: Timing(seconds, 1.0)}, counts)


def keep(rounds: Sequence[Round], best_rate: float) -> Kept:
    """The undisturbed ones of `rounds`, where the run's best probe read `best_rate` bytes a second."""
    assert rounds, "no round was run"
    best_shares = {job: max(each.jobs[job].share for each in rounds) for job in rounds[0].jobs}
    calm = [each for each in rounds if _is_calm(each, best_rate, best_shares)]
    if 2 * len(calm) >= len(rounds):
        return Kept(calm, len(rounds) - len(calm), False)
    half = (len(rounds) + 1) // 2
    best = sorted(range(len(rounds)), key=lambda i: -rounds[i].probe_rate)[:half]
    return Kept([rounds[i] for i in sorted(best)], len(rounds) - half, True)


def _is_calm(each: Round, best_rate: float, best_shares: Mapping[str, float]) -> bool:
    if each.probe_rate < SLOWEST_PROBE * best_rate or each.probe_share < SMALLEST_SHARE:
        return False
    return all(timing.share >= SMALLEST_SHARE * best_shares[job] for job, timing in each.jobs.items())
