"""What an expert store did, for a person and for other programs."""

from dataclasses import asdict, dataclass

from shoal.plan.size import gib


@dataclass
class ExpertStatistics:
    """Experts that were in memory when asked for, and those that were not; what was read, and how long was waited.

    Prefetched are the reads begun before anybody asked; those asked for later were of use.
    """

    hits: int = 0
    misses: int = 0
    reads: int = 0
    read_nbytes: int = 0
    stall_seconds: float = 0.0
    prefetches: int = 0
    prefetches_used: int = 0

    @property
    def hit_rate(self) -> float | None:
        """None before anything was asked for."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types."""
        return asdict(self) | {"hit_rate": self.hit_rate}

    def line(self) -> str:
        """A summary."""
        rate = "none asked for" if self.hit_rate is None else f"{self.hit_rate:.1%} in memory"
        parts = [f"experts: {rate}", f"{gib(self.read_nbytes)} read", f"waited {self.stall_seconds:.2f} s"]
        if self.prefetches:
            parts.append(f"{self.prefetches_used:,} of {self.prefetches:,} prefetched were used")
        return ", ".join(parts)
