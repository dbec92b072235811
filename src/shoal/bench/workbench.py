"""What every case works with: kernels by instruction set, experts in memory, the probe, random operands."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import BFloat16, UInt8
from torch import Tensor

from shoal.bench.probe import Probe
from shoal.bench.region import HIGH_SCALE, LOW_SCALE, ExpertRegion, Say, anonymous
from shoal.formats.float8 import E4M3_NAN
from shoal.ops.kernels import Kernels, available_isas
from shoal.ops.quantize import Quantized, quantize_q8_torch
from shoal.ops.weights import BLOCK, Float8Weight

PATTERN_NBYTES = 32 << 20


class NotMeasured(Exception):  # noqa: N818 - no error: the figure is reported as skipped
    """A case cannot be run here; the message says why."""


@dataclass(frozen=True)
class Workbench:
    """`peers` is the directory that `benchmarks/peers/build.sh` filled."""

    isa: str
    threads: int
    region: ExpertRegion
    probe: Probe
    say: Say
    peers: Path | None = None
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(1))
    _kernels: dict[str, Kernels] = field(default_factory=dict)

    def kernels(self, isa: str | None = None) -> Kernels:
        """The kernels of `isa`, the run's own unless named. NotMeasured where the machine lacks it."""
        isa = isa or self.isa
        if isa not in available_isas():
            raise NotMeasured(f"this machine has no `{isa}`, only {', '.join(available_isas())}")
        if isa not in self._kernels:
            self._kernels[isa] = Kernels(isa, self.threads)
        return self._kernels[isa]

    def activations(self, *shape: int) -> BFloat16[Tensor, "*shape"]:
        """Normally distributed, as after a norm."""
        return torch.randn(shape, generator=self.generator).to(torch.bfloat16)

    def quantized(self, rows: int, columns: int) -> Quantized:
        """Activations in Q8."""
        return quantize_q8_torch(self.activations(rows, columns))

    def float8(self, outputs: int, inputs: int) -> Float8Weight:
        """A matrix of random codes, none of them NaN, in memory of its own."""
        codes = self._tiled(self._codes(min(PATTERN_NBYTES, outputs * inputs)), outputs * inputs)
        tiles = -(-outputs // BLOCK), inputs // BLOCK
        scales = torch.randint(LOW_SCALE, HIGH_SCALE, tiles, dtype=torch.uint8, generator=self.generator)
        return Float8Weight(codes.view(outputs, inputs), scales)

    def bfloat16(self, outputs: int, inputs: int) -> BFloat16[Tensor, "outputs inputs"]:
        """A matrix of small random values, in memory of its own."""
        pattern = self.activations(min(PATTERN_NBYTES, 2 * outputs * inputs) // 2) * 0.02
        return self._tiled(pattern.view(torch.uint8), 2 * outputs * inputs).view(torch.bfloat16).view(outputs, inputs)

    def _codes(self, count: int) -> UInt8[Tensor, "count"]:
        codes = torch.randint(0, 256, (count,), dtype=torch.uint8, generator=self.generator)
        return torch.where((codes & E4M3_NAN) == E4M3_NAN, codes ^ 1, codes)

    def _tiled(self, pattern: UInt8[Tensor, "length"], nbytes: int) -> UInt8[Tensor, "nbytes"]:
        memory = anonymous(nbytes)
        for start in range(0, nbytes, pattern.numel()):
            part = memory[start : start + pattern.numel()]
            part.copy_(pattern[: part.numel()])
        return memory
