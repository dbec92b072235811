"""How much memory a run can have: what the machine has free, and what its control group leaves."""

from dataclasses import dataclass
from pathlib import Path

from shoal.doctor.control_group import MemoryLimit, memory_limit
from shoal.doctor.finding import Finding, ok, problem, warning
from shoal.doctor.kernel_file import read_fields, read_text
from shoal.errors import OptionError

_GIB = 1 << 30


@dataclass(frozen=True)
class Memory:
    """Bytes. `available` counts the page cache that would be given up; `limit` is None where there is none."""

    total: int
    available: int
    limit: MemoryLimit | None

    @property
    def usable(self) -> int:
        """What a run can take now."""
        return self.available if self.limit is None else min(self.available, self.limit.free)


def read_memory(proc: Path, cgroup: Path) -> Memory:
    """The memory of this machine. `OptionError` where the kernel does not say, as outside Linux."""
    fields = read_fields(proc / "meminfo")
    if "MemTotal" not in fields or "MemAvailable" not in fields:
        raise OptionError(
            f"`{proc / 'meminfo'}` does not state the free memory, wanted `MemTotal` and `MemAvailable`",
            hint="this is read on Linux only; say how much there is with `--memory`",
        )
    return Memory(fields["MemTotal"], fields["MemAvailable"], memory_limit(proc, cgroup))


def granted_memory(proc: Path, cgroup: Path) -> int | None:
    """Bytes that the control group lets this process have in all: what it has, and what is left; None: no limit."""
    limit = memory_limit(proc, cgroup)
    return None if limit is None else limit.free + read_fields(proc / "self" / "status").get("RssAnon", 0)


def examine_memory(memory: Memory, smallest: int) -> Finding:
    """A problem when less is usable than `smallest`, the bytes that the model needs without holding any expert."""
    text = f"{_gib(memory.usable)} usable: {_gib(memory.available)} free of {_gib(memory.total)}"
    limit = memory.limit
    if limit is not None:
        text += f", and the control group leaves {_gib(limit.free)} of {_gib(limit.limit)}"
    if memory.usable >= smallest:
        return ok("memory", text)
    wanted = f"{text}; the model needs {_gib(smallest)}"
    if memory.total < smallest:
        return problem("memory", wanted, "use a machine with more")
    if limit is not None and limit.limit < smallest:
        return problem("memory", wanted, "raise the limit of the control group (`--memory` of a container)")
    return problem("memory", wanted, "end other programs")


def examine_huge_pages(sys: Path) -> Finding:
    """A warning when transparent huge pages are off: every read of a weight then walks more page tables."""
    text = read_text(sys / "kernel" / "mm" / "transparent_hugepage" / "enabled") or ""
    chosen = text.partition("[")[2].partition("]")[0]
    if chosen in ("always", "madvise"):
        return ok("huge pages", chosen)
    enable = "as root: `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`"
    return warning("huge pages", chosen or "this kernel has none", enable if chosen else "use a kernel that has them")


def _gib(nbytes: int) -> str:
    return f"{nbytes / _GIB:,.2f} GiB"
