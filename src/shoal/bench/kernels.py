"""The table of kernels: every case in turn, each beside the probe, in one process."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from shoal.bench.attention_cases import Attention1, Attention128
from shoal.bench.case import Case, measure
from shoal.bench.index_case import IndexScore
from shoal.bench.linear_cases import Float8Linear1, Float8Linear1Avx2, Head, PrefillFloat8AgainstTorch
from shoal.bench.llamacpp_cases import AgainstLlamaCpp1, AgainstLlamaCpp128
from shoal.bench.machine import free_memory
from shoal.bench.moe_cases import (
    Experts4Over1,
    MoE128,
    MoE2048,
    MoEStep1,
    MoEStep1Avx2,
    MoEStep1AvxVnni,
)
from shoal.bench.probe import Probe
from shoal.bench.quantize_case import QuantizeQ8
from shoal.bench.region import RELEASED, ExpertRegion, ExpertShape, Say, num_experts
from shoal.bench.result import Result, Skipped
from shoal.bench.workbench import NotMeasured, Workbench
from shoal.errors import OptionError
from shoal.ops.kernels import Kernels

CASES: tuple[type[Case], ...] = (
    MoEStep1,
    MoEStep1Avx2,
    MoEStep1AvxVnni,
    Float8Linear1,
    Float8Linear1Avx2,
    Head,
    Experts4Over1,
    MoE128,
    MoE2048,
    PrefillFloat8AgainstTorch,
    Attention1,
    Attention128,
    IndexScore,
    QuantizeQ8,
    AgainstLlamaCpp1,
    AgainstLlamaCpp128,
)


def names() -> tuple[str, ...]:
    """The figures in the order in which they are measured."""
    return tuple(case.name for case in CASES)


def chosen(only: Sequence[str]) -> list[type[Case]]:
    """The cases of these names, all of them for none. OptionError for a name that is none."""
    if unknown := [name for name in only if name not in names()]:
        raise OptionError(f"`{unknown[0]}` is not a figure, expected one of {', '.join(names())}")
    return [case for case in CASES if not only or case.name in only]


@dataclass(frozen=True)
class KernelBench:
    """What to measure and how long."""

    isa: str
    threads: int
    rounds: int
    say: Say
    peers: Path | None = None
    shape: ExpertShape = RELEASED

    def prepare(self) -> Workbench:
        """Take the memory and fill it, some seconds. OptionError where there is too little."""
        torch.set_num_threads(self.threads)
        count = num_experts(self.shape, free_memory(), self.say)
        self.say(f"filling memory with {count} experts")
        region = ExpertRegion(self.shape, count)
        probe = Probe(Kernels(self.isa, self.threads), self.threads, region)
        return Workbench(self.isa, self.threads, region, probe, self.say, self.peers)

    def run(self, bench: Workbench, cases: Sequence[type[Case]]) -> Iterator[Result | Skipped]:
        """A row for each case, as soon as it is there."""
        for number, case in enumerate(cases, 1):
            self.say(f"{case.name} ({number} of {len(cases)})")
            try:
                yield measure(case(), bench, self.rounds)
            except NotMeasured as reason:
                yield Skipped(case.name, str(reason))
