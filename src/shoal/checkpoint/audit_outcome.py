"""What a check of the audit comes to: passed, failed with evidence, or undecided with what it waits for."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

SHOWN_PROBLEMS = 5


class Verdict(Enum):
    """Undecided is never a pass."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Outcome:
    """`evidence` is a sentence a line; `waits_for` names shards that have not arrived."""

    verdict: Verdict
    evidence: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()


def judge(problems: Iterable[str], waits_for: Iterable[str] = ()) -> Outcome:
    """Failed with the first problems, else undecided while anything is waited for, else passed.

    What is on disk decides alone: a failure is never deferred to a shard that has not arrived.
    """
    found = list(problems)
    if found:
        more = [f"and {len(found) - SHOWN_PROBLEMS:,} more"] if len(found) > SHOWN_PROBLEMS else []
        return Outcome(Verdict.FAILED, (*found[:SHOWN_PROBLEMS], *more))
    shards = tuple(sorted(set(waits_for)))
    return Outcome(Verdict.UNDECIDED, waits_for=shards) if shards else Outcome(Verdict.PASSED)
