"""What the control groups this process is in, versions 1 and 2, let it use: the tightest of every level counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shoal.doctor.kernel_file import as_number, read_fields, read_number, read_text

_UNLIMITED = 1 << 60
"""Version 1 states the largest multiple of a page below 2^63 where there is no limit."""


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes a group may use, and how many of them are free: clean page cache is given up before the limit bites."""

    limit: int
    free: int


def memory_limit(proc: Path, root: Path) -> MemoryLimit | None:
    """The limit that leaves the least; None where no group has one."""
    limits = [limit for folder in _folders(proc, root, "memory") if (limit := _memory_limit(folder)) is not None]
    return min(limits, key=lambda limit: limit.free, default=None)


def processor_quota(proc: Path, root: Path) -> float | None:
    """Processors' worth of time, such as 2.5; None where no group is limited."""
    quotas = [quota for folder in _folders(proc, root, "cpu") if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def _memory_limit(folder: Path) -> MemoryLimit | None:
    # Above `memory.high` a group is slowed down until it has given back: no run shall plan for that.
    bounds = [read_number(folder / name) for name in ("memory.max", "memory.high")]
    limit = min((bound for bound in bounds if bound is not None), default=None)
    used, cache = read_number(folder / "memory.current"), "inactive_file"
    if limit is None:
        limit, used = (
            read_number(folder / "memory.limit_in_bytes"),
            read_number(folder / "memory.usage_in_bytes"),
        )
        cache = "total_inactive_file"
    if limit is None or limit >= _UNLIMITED:
        return None
    reclaimable = read_fields(folder / "memory.stat").get(cache, 0)
    return MemoryLimit(limit, max(0, limit - max(0, (used or 0) - reclaimable)))


def _quota(folder: Path) -> float | None:
    words = (read_text(folder / "cpu.max") or "").split()
    if len(words) == 2:
        quota, period = as_number(words[0]), as_number(words[1])
    else:
        quota, period = read_number(folder / "cpu.cfs_quota_us"), read_number(folder / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 and period > 0 else None


def _folders(proc: Path, root: Path, controller: str) -> Iterator[Path]:
    """The folders of the groups of `controller`, from the process's own to the outermost that is mounted here."""
    for line in (read_text(proc / "self" / "cgroup") or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        # Inside a container the path may lead out of what is mounted; then the root is the container's group.
        parts = [] if ".." in path else [part for part in path.split("/") if part]
        for mount in _mounts(root, controllers, controller):
            yield from (mount.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def _mounts(root: Path, controllers: str, wanted: str) -> list[Path]:
    if not controllers:  # version 2: one tree for all
        return [root, root / "unified"]
    return [root / controllers, root / wanted] if wanted in controllers.split(",") else []
