"""Sparse attention's core: 128 rows of the window and 512 selected entries a token."""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import torch

from shoal.bench.case import Case, Sample
from shoal.bench.workbench import Workbench
from shoal.ops.kernels import Kernels
from shoal.ops.quantize import Q4C, Quantized
from shoal.ops.rotation import Rotation
from shoal.ops.sparse_attention import SelectedEntries, WindowKeys

HEADS, DIM, WINDOW, SELECTED, PAIRS = 64, 512, 128, 512, 32
ENTRIES, POSITION = 16_384, 32_768
ENTRY_NBYTES = DIM // 2 + DIM // Q4C.group
RUNS_A_SAMPLE = 8


class Attention1(Case):
    """A token of a long sequence, milliseconds a layer."""

    name, unit = "attention_1", "ms"
    tokens: ClassVar[int] = 1
    runs: ClassVar[int] = RUNS_A_SAMPLE

    def set_up(self, bench: Workbench) -> None:
        self.q = bench.activations(self.tokens, HEADS, DIM)
        ring, own = bench.quantized(WINDOW, DIM), bench.quantized(self.tokens, DIM)
        self.window = WindowKeys(ring, own, POSITION)
        codes = torch.randint(0, 256, (ENTRIES, DIM // 2), dtype=torch.uint8, generator=bench.generator)
        scales = torch.randint(40, 64, (ENTRIES, DIM // Q4C.group), dtype=torch.uint8, generator=bench.generator)
        self.entries = Quantized(codes, scales, Q4C)
        self.sink = bench.activations(HEADS).float()
        angles = torch.rand((self.tokens, PAIRS), generator=bench.generator)
        self.rotation = Rotation(angles.cos(), angles.sin())

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        jobs = [partial(self._attend, bench.kernels(), self._select(bench)) for _ in range(self.runs)]
        return {"attention": Sample(jobs, self.tokens * SELECTED * ENTRY_NBYTES)}

    def _select(self, bench: Workbench) -> SelectedEntries:
        picks = [torch.randperm(ENTRIES, generator=bench.generator)[:SELECTED] for _ in range(self.tokens)]
        return SelectedEntries(self.entries, torch.stack(picks).sort(dim=1).values)

    def _attend(self, kernels: Kernels, selected: SelectedEntries) -> None:
        kernels.attention(self.q, self.window, selected, self.sink, self.rotation)

    def value(self, seconds: Mapping[str, float], ratio: float) -> float:
        return seconds["attention"] * 1e3


class Attention128(Attention1):
    """128 tokens of a prompt, each with its own 512 entries."""

    name, tokens, runs = "attention_128", 128, 1
