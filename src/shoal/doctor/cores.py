"""How many processors this process may use: its affinity, and the time its control group is given."""

import os
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from shoal.doctor.control_group import processor_quota
from shoal.doctor.finding import Finding, ok, warning
from shoal.doctor.kernel_file import read_text


@dataclass(frozen=True)
class Cores:
    """`quota` is in processors' worth of time; None where it is not limited."""

    online: int
    allowed: int
    quota: float | None

    @property
    def usable(self) -> int:
        """Threads that can run at once, at least one."""
        return max(1, self.allowed if self.quota is None else min(self.allowed, int(self.quota)))


def affinity() -> set[int]:
    """The processors this process may run on; all of them where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def read_cores(proc: Path, cgroup: Path, allowed: Set[int]) -> Cores:
    """The processors of the machine, of the process and of its control group."""
    lines = (read_text(proc / "cpuinfo") or "").splitlines()
    online = sum(line.startswith("processor") and ":" in line for line in lines)
    return Cores(online or len(allowed), len(allowed), processor_quota(proc, cgroup))


def examine_cores(cores: Cores) -> Finding:
    """A warning when the machine has more than this process may use."""
    text = f"{cores.usable} usable of {cores.online}"
    if cores.quota is not None and cores.quota < cores.allowed:
        found = f"{text}: the control group gives {cores.quota:g} processors' worth of time"
        return warning("cores", found, "raise its CPU quota (`--cpus` of a container)")
    if cores.allowed < cores.online:
        return warning("cores", f"{text}: the affinity leaves out the rest", "start without `taskset` or a CPU set")
    return ok("cores", text)
