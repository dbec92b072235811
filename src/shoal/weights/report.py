"""What loading did with every tensor."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class LoadReport:
    """`read` tensors are in memory, `left` stay in the shards (routed experts, Engram tables), `ignored` are unused.

    `nbytes` counts the bytes in memory by class of tensor; `seconds` is wall time.
    """

    read: int
    left: int
    ignored: int
    nbytes: dict[str, int]
    left_nbytes: dict[str, int]
    seconds: float

    def lines(self) -> list[str]:
        """The report for a person: a line per class."""
        in_memory = [f"{kind}: {size / MIB:,.1f} MiB in memory" for kind, size in self.nbytes.items()]
        left = [f"{kind}: {size / MIB:,.1f} MiB left in the shards" for kind, size in self.left_nbytes.items()]
        counts = f"{self.read:,} tensors read, {self.left:,} left, {self.ignored:,} ignored, {self.seconds:.2f} s"
        return [counts, *in_memory, *left]
