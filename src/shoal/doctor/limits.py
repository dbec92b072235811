"""What `ulimit` allows this process: address space, data, locked memory, open files."""

import resource
from collections.abc import Mapping

from shoal.doctor.finding import Finding, ok, problem

_GIB = 1 << 30
NAMES = {"address space": "v", "data": "d", "locked memory": "l", "open files": "n"}
"""What is limited, and the letter by which `ulimit` knows it."""
FILES_BESIDE_SHARDS = 64


def read_limits() -> dict[str, int | None]:
    """The soft limits by the names of `NAMES`, in bytes or files; None is unlimited."""
    numbers = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE)
    soft = [resource.getrlimit(number)[0] for number in numbers]
    values = [None if limit == resource.RLIM_INFINITY else limit for limit in soft]
    return dict(zip(NAMES, values, strict=True))


def examine_limits(limits: Mapping[str, int | None], *, mapped: int, resident: int, shards: int) -> list[Finding]:
    """A problem for each limit below what a run takes: `mapped` and `resident` bytes, and `shards` open files."""
    wanted = {
        "address space": mapped + resident,
        "data": resident,
        "locked memory": 0,
        "open files": shards + FILES_BESIDE_SHARDS,
    }
    low = {name: limit for name, limit in limits.items() if limit is not None and limit < wanted[name]}
    if not low:
        return [ok("limits", ", ".join(f"{name} {_shown(name, limit)}" for name, limit in limits.items()))]
    return [_too_low(name, limit, wanted[name]) for name, limit in low.items()]


def _too_low(name: str, limit: int, wanted: int) -> Finding:
    text = f"{name} is limited to {_shown(name, limit)}, and a run takes {_shown(name, wanted)}"
    return problem("limits", text, f"`ulimit -{NAMES[name]} unlimited`, or ask the administrator")


def _shown(name: str, limit: int | None) -> str:
    if limit is None:
        return "unlimited"
    return f"{limit:,}" if name == "open files" else f"{limit / _GIB:,.2f} GiB"
