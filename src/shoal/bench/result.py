"""Figures: one row each, for a person and for a program."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shoal.bench.machine import Machine
from shoal.bench.rounds import Kept


@dataclass(frozen=True)
class Result:
    """`value` in `unit` is the figure; `ratio` is what it is a multiple of: the probe, or another program's time.

    `seconds` and `nbytes` (read from memory or disk) are those of one run of it; `note` is what a person must see too.
    """

    name: str
    seconds: float
    nbytes: int
    ratio: float
    value: float
    unit: str
    rounds: int
    dropped: int
    contended: bool
    more: Mapping[str, object] = field(default_factory=dict)
    note: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        kept: Kept,
        *,
        seconds: float,
        nbytes: int,
        ratio: float,
        value: float,
        unit: str,
        more: Mapping[str, object] | None = None,
        note: str = "",
    ) -> "Result":
        """A figure of the rounds that were kept."""
        rounds = len(kept.rounds)
        return cls(name, seconds, nbytes, ratio, value, unit, rounds, kept.dropped, kept.contended, more or {}, note)

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types."""
        return {
            "name": self.name,
            "seconds": self.seconds,
            "bytes": self.nbytes,
            "ratio": self.ratio,
            "value": self.value,
            "unit": self.unit,
            "rounds": self.rounds,
            "dropped": self.dropped,
            "contended": self.contended,
            **self.more,
        }


@dataclass(frozen=True)
class Skipped:
    """A figure that could not be measured, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Report:
    """What one run of `shoal bench` found."""

    machine: Machine
    results: Sequence[Result]
    skipped: Sequence[Skipped] = ()

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types."""
        return {
            "machine": self.machine.as_dict(),
            "results": [result.as_dict() for result in self.results],
            "skipped": [vars(skipped) for skipped in self.skipped],
        }

    def lines(self) -> Iterator[str]:
        """The machine, then a table."""
        yield self.machine.line()
        if self.results:
            width = max(len(result.name) for result in self.results)
            yield f"{'':<{width}}  {'ms':>10}  {'GB/s':>7}  {'ratio':>6}  {'figure':>21}  rounds"
            yield from (_line(result, width) for result in self.results)
        for skipped in self.skipped:
            yield f"not measured: {skipped.name}: {skipped.reason}"


def _line(result: Result, width: int) -> str:
    rate = f"{result.nbytes / result.seconds / 1e9:.2f}" if result.nbytes else "-"
    figure = f"{result.value:.3g} {result.unit}"
    rounds = f"{result.rounds}" + (f", {result.dropped} dropped" if result.dropped else "")
    rounds += ", contended" if result.contended else ""
    rounds += f"; {result.note}" if result.note else ""
    milliseconds = f"{result.seconds * 1e3:.3f}"
    return f"{result.name:<{width}}  {milliseconds:>10}  {rate:>7}  {result.ratio:>6.3f}  {figure:>21}  {rounds}"
