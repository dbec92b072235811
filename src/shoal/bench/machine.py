"""The machine that a figure belongs to."""

import datetime
import platform
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Self

from shoal.doctor.cores import affinity, read_cores
from shoal.doctor.memory import read_memory
from shoal.doctor.processor import read_processor
from shoal.ops.kernels import available_isas

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Machine:
    """Its parts, the kernels and threads used, and the probes in GB/s: memory's median and best, and the disk's."""

    date: str
    processor: str
    cores: int
    isa: str
    isas: tuple[str, ...]
    threads: int
    memory_gib: float
    system: str
    versions: dict[str, str]
    probe_gb_per_second: float | None = None
    best_probe_gb_per_second: float | None = None
    disk_gb_per_second: float | None = None

    def with_probe(self, median: float, best: float) -> Self:
        """With the memory's rates, given in bytes a second."""
        return replace(self, probe_gb_per_second=median / 1e9, best_probe_gb_per_second=best / 1e9)

    def with_disk(self, rate: float) -> Self:
        """With the disk's rate, given in bytes a second."""
        return replace(self, disk_gb_per_second=rate / 1e9)

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types."""
        return asdict(self) | {"isas": list(self.isas)}

    def line(self) -> str:
        """For the head of a table."""
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        parts = [f"{self.processor}, {self.cores} cores", f"{self.isa}, {threads}"]
        if self.probe_gb_per_second is not None:
            parts.append(f"probe {self.probe_gb_per_second:.2f} GB/s (best {self.best_probe_gb_per_second:.2f})")
        if self.disk_gb_per_second is not None:
            parts.append(f"disk {self.disk_gb_per_second:.2f} GB/s")
        return "; ".join([*parts, self.date])


def usable_cores() -> int:
    """Threads that can run at once."""
    return read_cores(PROC, CGROUP, affinity()).usable


def free_memory() -> int:
    """Bytes that this process can take now."""
    return read_memory(PROC, CGROUP).usable


def describe_machine(isa: str, threads: int) -> Machine:
    """This machine, before any probe."""
    return Machine(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        processor=read_processor(PROC).name,
        cores=usable_cores(),
        isa=isa,
        isas=available_isas(),
        threads=threads,
        memory_gib=read_memory(PROC, CGROUP).total / (1 << 30),
        system=f"{platform.system()} {platform.release()}",
        versions={name: version(name) for name in ("torch", "shoal")},
    )
