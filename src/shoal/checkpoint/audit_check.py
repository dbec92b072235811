"""A check of the audit: a stable name, the claim in one line, and what decides it."""

from collections.abc import Callable
from dataclasses import dataclass

from shoal.checkpoint.audit_disk import Disk
from shoal.checkpoint.audit_expected import Expected
from shoal.checkpoint.audit_outcome import Outcome


@dataclass(frozen=True)
class ModelCheck:
    """Compares what has arrived with what the configuration demands."""

    check_id: str
    claim: str
    decide: Callable[[Disk, Expected], Outcome]


@dataclass(frozen=True)
class DiskCheck:
    """Judges the headers that have arrived by themselves; without any it is undecided."""

    check_id: str
    claim: str
    decide: Callable[[Disk], Outcome]


Check = ModelCheck | DiskCheck
