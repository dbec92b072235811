"""Bytes that one step moves from memory and from the disk (KV: spec §5; experts: spec §2.3)."""

from dataclasses import dataclass

from shoal.checkpoint.inventory import ROUTED
from shoal.plan.memory_split import MemorySplit
from shoal.plan.stored import READ_PER_TOKEN

PAGE_NBYTES = 4096
KV_CACHE = "KV cache"


@dataclass(frozen=True)
class Traffic:
    """One step of `tokens` tokens of `sequences` sequences, in a given split of the memory."""

    split: MemorySplit
    tokens: int
    sequences: int

    @property
    def experts(self) -> float:
        """Distinct routed experts of all layers that the step is expected to use.

        E·(1 − (1 − k/E)^n) a layer: n tokens pick k of E each, evenly and independently.
        """
        config = self.split.stored.config
        total, active = config.n_routed_experts, config.n_activated_experts
        if self.tokens == 1:
            return float(config.n_layers * active)
        return config.n_layers * total * (1 - (1 - active / total) ** self.tokens)

    @property
    def from_memory(self) -> dict[str, float]:
        """Bytes by class, each weight once a step; an expert that came from the disk is read from memory too."""
        nbytes = self.split.stored.nbytes
        parts: dict[str, float] = {kind: nbytes[kind] for kind in READ_PER_TOKEN if kind in nbytes}
        parts[ROUTED] = self.experts * self.split.stored.expert_nbytes
        parts[KV_CACHE] = self.sequences * self.split.cache.read_nbytes
        return dict(sorted(parts.items(), key=lambda part: -part[1]))

    @property
    def experts_from_disk(self) -> float:
        """Bytes of the experts that are not in memory."""
        return self.experts * self.split.stored.expert_nbytes * (1 - self.split.expert_hit_rate)

    @property
    def engram_pages(self) -> int:
        """Pages that hold the rows of the step's tokens: one for a row's codes, one for its scales (spec §6.1)."""
        config = self.split.stored.config
        return 2 * config.num_engram_columns * len(config.engram_layer_ids) * self.tokens

    @property
    def engram_from_disk(self) -> float:
        """Bytes of the Engram pages that are not in memory."""
        return self.engram_pages * PAGE_NBYTES * (1 - self.split.row_hit_rate)

    @property
    def memory_nbytes(self) -> float:
        """All bytes from memory."""
        return sum(self.from_memory.values())

    @property
    def disk_nbytes(self) -> float:
        """All bytes from the disk."""
        return self.experts_from_disk + self.engram_from_disk
