"""Expected seconds: bytes over bandwidth and operations over their rate, nothing else.

Memory and disk times are added, not overlapped: the experts of a layer are known only once its router has run, and
nothing of that layer is left to do meanwhile but the experts that are held.
"""

from dataclasses import dataclass

from shoal.plan.memory_split import MemorySplit
from shoal.plan.rates import SHARE, Rates
from shoal.plan.traffic import Traffic


@dataclass(frozen=True)
class Estimate:
    """What a split of the memory gives at certain rates."""

    split: MemorySplit
    rates: Rates

    @property
    def step(self) -> Traffic:
        """A decode step: one token of every sequence."""
        sequences = self.split.workload.sequences
        return Traffic(self.split, sequences, sequences)

    @property
    def step_seconds(self) -> float:
        """Seconds of a decode step, which is a token of every sequence."""
        return self.step_memory_seconds + self._from_disk(self.step)

    @property
    def step_memory_seconds(self) -> float:
        """What of them is left when the step's experts and rows are all in memory."""
        return self._from_memory(self.step)

    @property
    def tokens_per_second(self) -> float:
        """Of all sequences together."""
        return self.split.workload.sequences / self.step_seconds

    @property
    def chunk(self) -> Traffic:
        """The tokens of a prompt that are computed at once; each expert is read once for them."""
        return Traffic(self.split, min(self.split.budget.chunk, self.split.workload.context), 1)

    @property
    def chunk_operations(self) -> float:
        """A multiplication and an addition for every parameter that acts on a token."""
        return 2.0 * self.split.stored.active_parameters * self.chunk.tokens

    @property
    def chunk_arithmetic_seconds(self) -> float:
        """Seconds of the chunk's operations alone."""
        return self.chunk_operations / (SHARE * self.rates.arithmetic.per_second)

    @property
    def chunk_seconds(self) -> float:
        """Seconds of a chunk: its arithmetic hides its reads from memory, or they it; the disk comes on top."""
        in_memory = max(self._from_memory(self.chunk), self.chunk_arithmetic_seconds)
        return in_memory + self._from_disk(self.chunk)

    @property
    def prefill_tokens_per_second(self) -> float:
        """Prompt tokens a second."""
        return self.chunk.tokens / self.chunk_seconds

    def _from_memory(self, traffic: Traffic) -> float:
        return traffic.memory_nbytes / (self.rates.share * self.rates.memory.per_second)

    def _from_disk(self, traffic: Traffic) -> float:
        return traffic.disk_nbytes / self.rates.disk.per_second
