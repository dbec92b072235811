"""One line of the examination: a fact, how bad it is, and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How bad a fact is."""

    OK = "ok"
    WARNING = "warning"
    """It runs, slower or less safely than this machine could."""
    PROBLEM = "problem"
    """It does not run."""


@dataclass(frozen=True)
class Finding:
    """What was found about `subject`. `advice` is what to do; whatever is not ok has one."""

    subject: str
    text: str
    level: Level = Level.OK
    advice: str | None = None

    def __post_init__(self) -> None:
        assert (self.level is Level.OK) == (self.advice is None), self

    def line(self) -> str:
        """The finding on one line."""
        advice = f"; {self.advice}" if self.advice else ""
        return f"[{self.level.value}] {self.subject}: {self.text}{advice}"


def ok(subject: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(subject, text)


def warning(subject: str, text: str, advice: str) -> Finding:
    """It runs, but not as it could."""
    return Finding(subject, text, Level.WARNING, advice)


def problem(subject: str, text: str, advice: str) -> Finding:
    """It does not run like this."""
    return Finding(subject, text, Level.PROBLEM, advice)


def has_problem(findings: Iterable[Finding]) -> bool:
    """Whether anything keeps the model from running."""
    return any(finding.level is Level.PROBLEM for finding in findings)


def tally(findings: Iterable[Finding]) -> str:
    """The last line: how many of each."""
    levels = [finding.level for finding in findings]
    warnings, problems = levels.count(Level.WARNING), levels.count(Level.PROBLEM)
    return f"{levels.count(Level.OK)} ok, {warnings} warning{_s(warnings)}, {problems} problem{_s(problems)}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
