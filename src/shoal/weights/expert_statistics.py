"""What an expert store did, for a person and for other programs."""

from dataclasses import asdict, dataclass

from shoal.plan.size import gib


@dataclass
class ExpertStatistics:
    """Experts that were in memory when asked for, and those that were not; what was read, and how long was waited.

    Warmed are the reads that filled free slots at the start. Prefetched are those that began on a guess at what the
    next layer would ask for: *used* when it did, which may be while the read was under way (*joined*), else *wasted*.
    """

    hits: int = 0
    misses: int = 0
    reads: int = 0
    read_nbytes: int = 0
    stall_seconds: float = 0.0
    warmed: int = 0
    warmed_used: int = 0
    prefetches: int = 0
    prefetches_used: int = 0
    prefetches_joined: int = 0
    wasted_nbytes: int = 0

    @property
    def hit_rate(self) -> float | None:
        """None before anything was asked for."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None

    @property
    def prefetch_precision(self) -> float | None:
        """The share of prefetches that were used; None before there was one."""
        return self.prefetches_used / self.prefetches if self.prefetches else None

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types."""
        return asdict(self) | {"hit_rate": self.hit_rate, "prefetch_precision": self.prefetch_precision}

    def line(self) -> str:
        """A summary."""
        rate = "none asked for" if self.hit_rate is None else f"{self.hit_rate:.1%} in memory"
        parts = [f"experts: {rate}", f"{gib(self.read_nbytes)} read", f"waited {self.stall_seconds:.2f} s"]
        if self.warmed:
            parts.append(f"{self.warmed_used:,} of {self.warmed:,} read at the start were used")
        if self.prefetches:
            used = f"{self.prefetches_used:,} of {self.prefetches:,} prefetched were used"
            parts.append(f"{used}, {gib(self.wasted_nbytes)} for nothing")
        return ", ".join(parts)
