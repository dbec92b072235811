"""The findings of an audit as lines a person reads and as JSON a program reads."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from shoal.checkpoint.audit_disk import Disk
from shoal.checkpoint.audit_outcome import Outcome, Verdict
from shoal.checkpoint.json_object import quoted, shown
from shoal.errors import OptionError

GIB = 2**30
_LISTED_SHARDS = 5


@dataclass(frozen=True)
class Finding:
    """One check and what it came to."""

    check_id: str
    claim: str
    outcome: Outcome


@dataclass(frozen=True)
class AuditReport:
    """Every finding, in order. `num_tensors` is all there should be or are, the readable ones included."""

    findings: tuple[Finding, ...]
    disk: Disk
    num_tensors: int

    def count(self, verdict: Verdict) -> int:
        """How many checks came to `verdict`."""
        return Counter(finding.outcome.verdict for finding in self.findings)[verdict]

    def holds(self, *, require_complete: bool) -> bool:
        """Whether nothing failed, and under `require_complete` nothing is undecided."""
        return not self.count(Verdict.FAILED) and not (require_complete and self.count(Verdict.UNDECIDED))

    def lines(self) -> Iterator[str]:
        """What a terminal shows; the last line is the summary."""
        for note in self.disk.notes:
            yield f"note: {note}"
        width = max(len(finding.check_id) for finding in self.findings)
        for finding in self.findings:
            outcome = finding.outcome
            yield f"{outcome.verdict.value:<9}  {finding.check_id:<{width}}  {finding.claim}"
            yield from (f"             {sentence}" for sentence in outcome.evidence)
            if outcome.waits_for:
                yield f"             waits for {_some(outcome.waits_for)}"
        yield self.summary()

    def summary(self) -> str:
        """The counts of checks, and of tensors whose header has arrived."""
        num_readable, nbytes = self._readable()
        passed, undecided = self.count(Verdict.PASSED), self.count(Verdict.UNDECIDED)
        checks = f"{passed}/{len(self.findings)} passed, {undecided} undecided, {self.count(Verdict.FAILED)} failed"
        return f"{checks}; {num_readable:,} of {self.num_tensors:,} tensors readable, {nbytes / GIB:,.2f} GiB"

    def tensor_lines(self, pattern: str) -> Iterator[str]:
        """Name, dtype, shape, bytes and shard of each readable tensor whose name matches, between tabs."""
        for entry in self.disk.readable():
            if fnmatchcase(entry.name, pattern):
                fields = (entry.name, entry.dtype, shown(entry.shape), str(entry.nbytes), entry.path.name)
                yield "\t".join(_plain(field) for field in fields)

    def write_json(self, file: Path) -> None:
        """Writes the report, whole or not at all. Raises OptionError where it cannot be written."""
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            partial.write_text(json.dumps(self._as_json(), indent=2) + "\n", encoding="utf-8")
            partial.replace(file)
        except OSError as problem:
            raise OptionError(f"{quoted(file)} cannot be written: {problem.strerror}") from problem
        finally:
            partial.unlink(missing_ok=True)

    def _as_json(self) -> dict[str, object]:
        num_readable, nbytes = self._readable()
        return {
            "checks": [_finding_as_json(finding) for finding in self.findings],
            "counts": {verdict.value: self.count(verdict) for verdict in Verdict},
            "tensors": {"readable": num_readable, "all": self.num_tensors, "readable_nbytes": nbytes},
            "absent_shards": self.disk.absent,
            "notes": self.disk.notes,
        }

    def _readable(self) -> tuple[int, int]:
        sizes = [entry.nbytes for entry in self.disk.readable()]
        return len(sizes), sum(sizes)


def _finding_as_json(finding: Finding) -> dict[str, object]:
    outcome = finding.outcome
    return {
        "id": finding.check_id,
        "claim": finding.claim,
        "verdict": outcome.verdict.value,
        "evidence": outcome.evidence,
        "waits_for": outcome.waits_for,
    }


def _some(names: tuple[str, ...]) -> str:
    listed = ", ".join(quoted(name) for name in names[:_LISTED_SHARDS])
    return f"{listed} and {len(names) - _LISTED_SHARDS:,} more" if len(names) > _LISTED_SHARDS else listed


def _plain(text: str) -> str:
    """A name that can neither end its line nor its column, nor tell a terminal what to do."""
    return text if text.isprintable() else text.encode("unicode_escape", errors="backslashreplace").decode("ascii")
