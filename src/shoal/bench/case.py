"""A figure to measure: operands are set up once, then every round draws fresh jobs and runs them beside the probe."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from shoal.bench.result import Result
from shoal.bench.rounds import Job, Kept, Round, Timing, keep, timed
from shoal.bench.workbench import Workbench

MIN_ROUNDS, LONG_SECONDS = 5, 1.0
SETTLE_SECONDS = 0.01
"""Threads of torch and of peers go on spinning for some milliseconds after their work."""


@dataclass(frozen=True)
class Sample:
    """Equal pieces of work, timed as one and counted each; `nbytes` is what one of them reads."""

    jobs: Sequence[Job]
    nbytes: int


class Case(ABC):
    """One row of the table. `name` is its name there."""

    name: ClassVar[str]
    unit: ClassVar[str] = "of the probe"

    @abstractmethod
    def set_up(self, bench: Workbench) -> None:
        """Makes the operands; raises NotMeasured where the figure cannot be had."""

    @abstractmethod
    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        """The jobs of a round, on operands that no cache holds. The first one is the figure's own."""

    def tear_down(self) -> None:  # noqa: B027 - most have nothing to do
        """Gives back what Python would not."""

    def ratio(self, seconds: Mapping[str, float], nbytes: int, probe_rate: float) -> float:
        """What `ratio` is in one round: by default the share of the probe that the first job reaches."""
        return nbytes / next(iter(seconds.values())) / probe_rate

    def value(self, seconds: Mapping[str, float], ratio: float) -> float:
        """The figure in `unit`, from the medians."""
        return ratio

    def more(self, seconds: Mapping[str, float]) -> dict[str, object]:
        """What else the row should say."""
        return {f"seconds_{name}": value for name, value in seconds.items()} if len(seconds) > 1 else {}

    def result(self, kept: Kept, samples: Mapping[str, Sample]) -> Result:
        """The row."""
        first = next(iter(samples))
        counts, nbytes = {name: len(sample.jobs) for name, sample in samples.items()}, samples[first].nbytes

        def each(one: Round) -> float:
            return self.ratio({name: one.jobs[name].seconds / n for name, n in counts.items()}, nbytes, one.probe_rate)

        seconds = {name: kept.seconds(name) / count for name, count in counts.items()}
        ratio = kept.median(each)
        return Result.of(
            self.name,
            kept,
            seconds=seconds[first],
            nbytes=nbytes,
            ratio=ratio,
            value=self.value(seconds, ratio),
            unit=self.unit,
            more={"probe_gb_per_second": kept.probe_rate / 1e9, **self.more(seconds)},
        )


class Against(Case):
    """A case whose ratio is the time of its second job over that of its first: how many times slower the other is."""

    unit = "times"

    def ratio(self, seconds: Mapping[str, float], nbytes: int, probe_rate: float) -> float:
        """Their seconds, divided."""
        first, second = seconds.values()
        return second / first


def measure(case: Case, bench: Workbench, rounds: int) -> Result:
    """The case's row. A case that takes seconds gets fewer rounds."""
    case.set_up(bench)
    try:
        return _measure(case, bench, rounds)
    finally:
        case.tear_down()


def _measure(case: Case, bench: Workbench, rounds: int) -> Result:
    bench.probe.wake()
    samples = case.draw(bench)
    warm = sum(timing.seconds for timing in _run(samples, bench.threads).values())
    if warm > LONG_SECONDS:
        rounds = min(rounds, MIN_ROUNDS)
    done = []
    for _ in range(rounds):
        samples = case.draw(bench)
        time.sleep(SETTLE_SECONDS)
        rate, probe = bench.probe.run()
        done.append(Round(rate, probe.share, _run(samples, bench.threads)))
    return case.result(keep(done, bench.probe.best_rate), samples)


def _run(samples: Mapping[str, Sample], threads: int) -> dict[str, Timing]:
    return {name: timed(sample.jobs, threads) for name, sample in samples.items()}
