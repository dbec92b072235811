"""The mixture of experts: one token on each instruction set, few tokens on an expert, chunks of a prompt."""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import torch

from shoal.bench.case import Against, Case, Sample
from shoal.bench.operators import Routing, SharedExpert, run_routed, run_step
from shoal.bench.workbench import Workbench

ACTIVE = 6
STEPS_A_SAMPLE, SHARED_COPIES = 4, 4
FEW_TOKENS, EXPERTS_A_SAMPLE = 4, 6
CHUNKS = 128, 2048


class MoEStep1(Case):
    """6 routed experts and the shared one, a token, experts at random."""

    name = "moe_step_1"
    isa: ClassVar[str | None] = None

    def set_up(self, bench: Workbench) -> None:
        bench.kernels(self.isa)
        dim, inter = bench.region.shape.dim, bench.region.shape.inter
        self.x = bench.quantized(1, dim)
        self.shared = [
            SharedExpert(bench.float8(inter, dim), bench.float8(dim, inter), bench.float8(inter, dim))
            for _ in range(SHARED_COPIES)
        ]

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        kernels, jobs = bench.kernels(self.isa), []
        for index in range(STEPS_A_SAMPLE):
            picks = torch.tensor([bench.region.draw(ACTIVE)])
            routing = Routing.draw(bench.region, picks, bench.generator)
            shared = self.shared[index % SHARED_COPIES]
            jobs.append(partial(run_step, kernels, self.x, routing, shared))
        return {"step": Sample(jobs, ACTIVE * bench.region.shape.nbytes + self.shared[0].nbytes)}


class MoEStep1Avx2(MoEStep1):
    """The same by the AVX2 kernels."""

    name, isa = "moe_step_1_avx2", "avx2"


class MoEStep1AvxVnni(MoEStep1):
    """The same by the AVX-VNNI kernels."""

    name, isa = "moe_step_1_avxvnni", "avxvnni"


class Experts4Over1(Against):
    """4 tokens through one expert, against 1: `ratio` is how many times longer they take."""

    name = "experts_4_over_1"

    def set_up(self, bench: Workbench) -> None:
        self.x = {rows: bench.quantized(rows, bench.region.shape.dim) for rows in (1, FEW_TOKENS)}

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        kernels, samples = bench.kernels(), dict[str, Sample]()
        for rows, name in ((1, "one"), (FEW_TOKENS, "four")):
            routings = [
                Routing.draw(bench.region, torch.tensor([[expert]] * rows), bench.generator)
                for expert in bench.region.draw(EXPERTS_A_SAMPLE)
            ]
            x = self.x[rows]
            jobs = [partial(run_routed, kernels, x, routing) for routing in routings]
            samples[name] = Sample(jobs, bench.region.shape.nbytes)
        return samples


class MoEChunk(Case):
    """The routed experts of a layer for a chunk of a prompt, every token's 6 at random."""

    tokens: ClassVar[int]

    def set_up(self, bench: Workbench) -> None:
        self.x = bench.quantized(self.tokens, bench.region.shape.dim)

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        scores = torch.rand((self.tokens, bench.region.count), generator=bench.generator)
        routing = Routing.draw(bench.region, scores.topk(ACTIVE).indices, bench.generator)
        kernels, x, shape = bench.kernels(), self.x, bench.region.shape
        self.operations = 2.0 * self.tokens * ACTIVE * 3 * shape.dim * shape.inter

        def run() -> None:
            run_step(kernels, x, routing, None)

        return {"chunk": Sample([run], len(routing.experts) * shape.nbytes)}

    def more(self, seconds: Mapping[str, float]) -> dict[str, object]:
        return {"giga_operations_per_second": self.operations / next(iter(seconds.values())) / 1e9}


class MoE128(MoEChunk):
    """128 tokens."""

    name, unit, tokens = "moe_128", "ms", CHUNKS[0]

    def value(self, seconds: Mapping[str, float], ratio: float) -> float:
        return next(iter(seconds.values())) * 1e3


class MoE2048(MoEChunk):
    """2,048 tokens."""

    name, unit, tokens = "moe_2048", "GOP/s", CHUNKS[1]

    def value(self, seconds: Mapping[str, float], ratio: float) -> float:
        return self.operations / next(iter(seconds.values())) / 1e9
