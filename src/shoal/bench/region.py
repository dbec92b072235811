"""The memory that is read: the routed experts of a layer, one after another as a shard holds them, every page touched.

Each measurement draws experts that were not read just before, so that no cache holds them.
"""

import contextlib
import mmap
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import UInt8
from torch import Tensor

from shoal.bench.deck import Deck
from shoal.checkpoint.private_memory import private_memory
from shoal.errors import OptionError
from shoal.ops.mixture import ExpertWeights
from shoal.ops.weights import BLOCK, Float4Weight
from shoal.plan.size import gib

WANTED_EXPERTS, FEWEST_EXPERTS = 384, 64
"""A whole layer; and what third-level caches cannot hold: 1.1 GiB."""
RESERVE_NBYTES = 2 << 30
"""Left to the other operands and to everything else."""
TEMPLATES = 8
LOW_SCALE, HIGH_SCALE = 118, 122
"""E8M0 bytes of scales: 2^-9 to 2^-6."""

Say = Callable[[str], None]
"""Tells the user what is going on."""


@dataclass(frozen=True)
class ExpertShape:
    """The two widths of a routed expert."""

    dim: int
    inter: int

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """(outputs, inputs) of each, in the order in which they lie."""
        return {"w1": (self.inter, self.dim), "w2": (self.dim, self.inter), "w3": (self.inter, self.dim)}

    @property
    def nbytes(self) -> int:
        """Bytes of an expert, codes and scales."""
        return sum(outputs * (inputs // 2 + inputs // BLOCK) for outputs, inputs in self.matrices.values())


RELEASED = ExpertShape(5120, 2304)


def num_experts(shape: ExpertShape, free: int, say: Say) -> int:
    """How many experts to hold in `free` bytes; says so when they are fewer than a layer's.

    `OptionError` when they are too few to be larger than the caches.
    """
    count = min(WANTED_EXPERTS, (free - RESERVE_NBYTES) // shape.nbytes)
    wanted = f"{WANTED_EXPERTS} experts ({gib(WANTED_EXPERTS * shape.nbytes)} and {gib(RESERVE_NBYTES)} beside)"
    if count < FEWEST_EXPERTS:
        fewest = gib(FEWEST_EXPERTS * shape.nbytes + RESERVE_NBYTES)
        raise OptionError(
            f"{gib(free)} of memory is free, wanted at least {fewest}: a probe of {FEWEST_EXPERTS} experts; "
            f"{wanted} are better",
            hint="end other programs",
        )
    if count < WANTED_EXPERTS:
        say(f"{gib(free)} of memory is free: {count} experts are held instead of {wanted}")
    return count


def anonymous(nbytes: int) -> UInt8[Tensor, "nbytes"]:
    """Memory of its own in huge pages where the kernel has them. `OptionError` where there is not so much."""
    try:
        memory = private_memory(nbytes)
    except OSError as error:
        raise OptionError(f"cannot take {gib(nbytes)} of memory: {error.strerror}") from None
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


class ExpertRegion:
    """`count` experts of random codes in one stretch of memory, and a source of those that were not used lately."""

    def __init__(self, shape: ExpertShape, count: int, seed: int = 0) -> None:
        assert count > 0, count
        self.shape, self.count = shape, count
        self.memory = anonymous(count * shape.nbytes)
        self._generator = torch.Generator().manual_seed(seed)
        templates = [self._template() for _ in range(min(TEMPLATES, count))]
        for expert in range(count):
            self._stretch(expert).copy_(templates[expert % len(templates)])
        self._deck = Deck(range(count), seed)

    def draw(self, count: int) -> list[int]:
        """`count` different experts at random, none again before all others were drawn."""
        return self._deck.draw(count)

    def start(self, expert: int) -> int:
        """The byte at which an expert begins."""
        return expert * self.shape.nbytes

    def expert(self, expert: int) -> ExpertWeights:
        """Its three matrices, where they lie."""
        at, matrices = self.start(expert), {}
        for name, (outputs, inputs) in self.shape.matrices.items():
            codes = self._matrix(at, outputs, inputs // 2)
            scales = self._matrix(at + codes.numel(), outputs, inputs // BLOCK)
            matrices[name] = Float4Weight(codes, scales)
            at += codes.numel() + scales.numel()
        return ExpertWeights(**matrices)

    def _matrix(self, at: int, rows: int, columns: int) -> UInt8[Tensor, "rows columns"]:
        return self.memory[at : at + rows * columns].view(rows, columns)

    def _stretch(self, expert: int) -> UInt8[Tensor, "nbytes"]:
        return self.memory[self.start(expert) : self.start(expert) + self.shape.nbytes]

    def _template(self) -> UInt8[Tensor, "nbytes"]:
        parts = []
        for outputs, inputs in self.shape.matrices.values():
            parts.append(self._random(0, 256, outputs * inputs // 2))
            parts.append(self._random(LOW_SCALE, HIGH_SCALE, outputs * inputs // BLOCK))
        return torch.cat(parts)

    def _random(self, low: int, high: int, count: int) -> UInt8[Tensor, "count"]:
        return torch.randint(low, high, (count,), dtype=torch.uint8, generator=self._generator)
