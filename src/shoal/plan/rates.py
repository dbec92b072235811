"""How fast the machine is said, measured or assumed to be."""

import math
from dataclasses import dataclass
from typing import Literal

from shoal.errors import OptionError

Origin = Literal["measured", "given", "assumed"]


@dataclass(frozen=True)
class Rate:
    """Bytes or operations a second, and where the number comes from."""

    per_second: float
    origin: Origin

    def __post_init__(self) -> None:
        if not (math.isfinite(self.per_second) and self.per_second > 0):
            raise OptionError(f"a rate of {self.per_second:g} a second was {self.origin}, wanted more than 0")


SHARE, SHARE_WITHOUT_AVX512 = 0.80, 0.65
"""Of the memory's rate: the sum of measured parts on a two-core Xeon with AVX-512, and what a decoded token reached on
two threads of an EPYC with AVX2, both in November 2026 (docs/performance.md)."""


@dataclass(frozen=True)
class Rates:
    """Streaming reads from memory and from the disk in bytes a second, float32 arithmetic in operations a second.

    `share` is what the kernels make of the memory; of the arithmetic it is always SHARE.
    """

    memory: Rate
    disk: Rate
    arithmetic: Rate
    share: float = SHARE


ASSUMED = Rates(
    memory=Rate(50e9, "assumed"),
    disk=Rate(3e9, "assumed"),
    arithmetic=Rate(500e9, "assumed"),
)
"""A desktop of 2026: two channels of memory, an NVMe disk of the fourth generation at half its best, eight cores."""
