"""The bandwidth probe: all threads stream random experts, with the reads written as the kernels write theirs."""

import torch

from shoal.bench.region import ExpertRegion
from shoal.bench.rounds import Timing, timed
from shoal.ops.kernels import Kernels

EXPERTS_A_PROBE = 24


class Probe:
    """Reads experts of `region`; remembers the best rate of the run."""

    def __init__(self, kernels: Kernels, threads: int, region: ExpertRegion) -> None:
        self.kernels, self.threads, self.region = kernels, threads, region
        self.best_rate = 0.0
        self.rates: list[float] = []

    def run(self) -> tuple[float, Timing]:
        """Bytes a second over experts just drawn, and how it went."""
        experts = self.region.draw(min(EXPERTS_A_PROBE, self.region.count))
        starts = torch.tensor([self.region.start(expert) for expert in experts])
        nbytes = self.region.shape.nbytes
        timing = timed([lambda: self.kernels.stream_read(self.region.memory, starts, nbytes)], self.threads)
        rate = len(experts) * nbytes / timing.seconds
        self.best_rate = max(self.best_rate, rate)
        self.rates.append(rate)
        return rate, timing

    def wake(self) -> None:
        """Read all of the region once: memory left idle is slow the first time."""
        starts = torch.tensor([self.region.start(expert) for expert in range(self.region.count)])
        self.kernels.stream_read(self.region.memory, starts, self.region.shape.nbytes)
