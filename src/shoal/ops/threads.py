"""How many threads can compute at once: what the affinity and the control groups of this process leave."""

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path


def available_threads(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Processors of the affinity, or the tightest quota of processor time rounded up where that is less; at least 1."""
    return max(1, min([_affinity(), *(ceil(quota) for quota in _quotas(proc, cgroup))]))


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quotas(proc: Path, cgroup: Path) -> Iterator[float]:
    """Processors' worth of time, from the process's own groups to the outermost that are mounted here."""
    for line in _words(proc / "self/cgroup", separator="\n"):
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        # Inside a container the path may lead out of what is mounted; then the root is the container's group.
        parts = [] if ".." in path else [part for part in path.split("/") if part]
        for mount in _mounts(cgroup, controllers):
            for depth in range(len(parts) + 1):
                yield from _quota(mount.joinpath(*parts[:depth]))


def _mounts(cgroup: Path, controllers: str) -> list[Path]:
    """Where version 2 (which names no controllers) or version 1 keeps the groups of processor time."""
    if not controllers:
        return [cgroup, cgroup / "unified"]
    return [cgroup / controllers, cgroup / "cpu"] if "cpu" in controllers.split(",") else []


def _quota(group: Path) -> Iterator[float]:
    words = _words(group / "cpu.max") or [
        word for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us") for word in _words(group / name)
    ]
    # `max` and -1 are no limit.
    if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[0]) and int(words[1]):
        yield int(words[0]) / int(words[1])


def _words(path: Path, separator: str | None = None) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").split(separator)
    except OSError:
        return []
