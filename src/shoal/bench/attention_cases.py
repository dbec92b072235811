"""Sparse attention's core: 128 rows of the window and 512 selected entries a token."""

from collections.abc import Mapping
from typing import ClassVar

import torch

from shoal.bench.case import Case, Sample
from shoal.bench.workbench import Workbench
from shoal.ops.quantize import Q4C, Q8, Quantized

HEADS, DIM, WINDOW, SELECTED, PAIRS = 64, 512, 128, 512, 32
ENTRIES, POSITION = 16_384, 32_768
RUNS_A_SAMPLE = 8


class Attention1(Case):
    """A token of a long sequence, milliseconds a layer."""

    name, unit = "attention_1", "ms"
    tokens: ClassVar[int] = 1
    runs: ClassVar[int] = RUNS_A_SAMPLE

    def set_up(self, bench: Workbench) -> None:
        self.q = bench.activations(self.tokens, HEADS, DIM)
        self.own, self.ring = bench.quantized(self.tokens, DIM), bench.quantized(WINDOW, DIM)
        codes = torch.randint(0, 256, (ENTRIES, DIM // 2), dtype=torch.uint8, generator=bench.generator)
        scales = torch.randint(40, 64, (ENTRIES, DIM // Q4C.group), dtype=torch.uint8, generator=bench.generator)
        self.entries = Quantized(codes, scales, Q4C)
        self.sink = torch.zeros(HEADS)
        angles = torch.rand((self.tokens, PAIRS), generator=bench.generator)
        self.cos, self.sin = angles.cos(), angles.sin()
        assert self.own.format is Q8

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        jobs = [self._job(bench) for _ in range(self.runs)]
        return {"attention": Sample(jobs, self.tokens * SELECTED * DIM * 9 // 16)}

    def value(self, seconds: Mapping[str, float], ratio: float) -> float:
        return seconds["attention"] * 1e3


class Attention128(Attention1):
    """128 tokens of a prompt, each with its own 512 entries."""

    name, tokens, runs = "attention_128", 128, 1
