"""Dense linears: FP8 for one token in the shapes of attention, the bf16 head, and FP8 against torch for a prompt."""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import torch

from shoal.bench.case import Against, Case, Sample
from shoal.bench.workbench import Workbench
from shoal.ops.kernels import Kernels
from shoal.ops.weights import Float8Weight, dequantize_weight

DIM, HEADS_DIM, LATENT = 5120, 32768, 1280
QUANTIZED = {"wq_a": (LATENT, DIM), "wkv": (512, DIM), "wq_b": (HEADS_DIM, LATENT), "wo_b": (DIM, 8192)}
"""(outputs, inputs) of the FP8 linears of attention that take Q8."""
GROUPS, GROUP_OUTPUTS, GROUP_INPUTS = 8, 1024, 4096
LAYERS = 8
VOCABULARY = 129_280
PROMPT_ROWS, PROMPT_SHAPE = 2048, (5120, 8192)


class Float8Linear1(Case):
    """wq_a with wkv, wq_b, the grouped wo_a and wo_b of one layer, a token; layers take turns."""

    name = "fp8_linear_1"
    isa: ClassVar[str | None] = None

    def set_up(self, bench: Workbench) -> None:
        bench.kernels(self.isa)
        self.x = {inputs: bench.quantized(1, inputs) for _, inputs in QUANTIZED.values()}
        self.grouped_x = bench.activations(1, GROUPS, GROUP_INPUTS)
        self.layers = [self._layer(bench) for _ in range(LAYERS)]
        self.next = 0

    def _layer(self, bench: Workbench) -> dict[str, Float8Weight]:
        shapes = QUANTIZED | {"wo_a": (GROUPS * GROUP_OUTPUTS, GROUP_INPUTS)}
        return {name: bench.float8(*shape) for name, shape in shapes.items()}

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        kernels, jobs = bench.kernels(self.isa), []
        for _ in range(LAYERS // 2):
            layer = self.layers[self.next % LAYERS]
            self.next += 1
            jobs.append(partial(self._run, kernels, layer))
        return {"linears": Sample(jobs, sum(weight.nbytes for weight in self.layers[0].values()))}

    def _run(self, kernels: Kernels, layer: dict[str, Float8Weight]) -> None:
        kernels.float8_linears(self.x[DIM], (layer["wq_a"], layer["wkv"]))
        kernels.float8_linear(self.x[LATENT], layer["wq_b"])
        kernels.grouped_linear(self.grouped_x, layer["wo_a"])
        kernels.float8_linear(self.x[8192], layer["wo_b"])


class Float8Linear1Avx2(Float8Linear1):
    """The same by the AVX2 kernels."""

    name, isa = "fp8_linear_1_avx2", "avx2"


class Head(Case):
    """The output head in bf16, a token. At 1.3 GB it is its own fresh memory."""

    name = "head"

    def set_up(self, bench: Workbench) -> None:
        self.x, self.weight = bench.activations(1, DIM), bench.bfloat16(VOCABULARY, DIM)

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        kernels = bench.kernels()
        return {"head": Sample([lambda: kernels.bf16_linear(self.x, self.weight, torch.float32)], self.weight.nbytes)}


class PrefillFloat8AgainstTorch(Against):
    """wo_b for 2,048 rows against torch's bf16 product of the expanded weight: `ratio` is torch's time over Shoal's."""

    name = "prefill_fp8_vs_torch"

    def set_up(self, bench: Workbench) -> None:
        self.weight = bench.float8(*PROMPT_SHAPE)
        self.expanded = dequantize_weight(self.weight).t()
        self.x = bench.activations(PROMPT_ROWS, PROMPT_SHAPE[1])
        self.x_q8 = bench.kernels().quantize_q8(self.x)

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        kernels, nbytes = bench.kernels(), self.weight.nbytes
        return {
            "shoal": Sample([lambda: kernels.float8_linear(self.x_q8, self.weight)], nbytes),
            "torch": Sample([lambda: torch.mm(self.x, self.expanded)], nbytes),
        }

    def more(self, seconds: Mapping[str, float]) -> dict[str, object]:
        operations = 2e-9 * PROMPT_ROWS * PROMPT_SHAPE[0] * PROMPT_SHAPE[1]
        rates = {f"{name}_giga_operations_per_second": operations / value for name, value in seconds.items()}
        return super().more(seconds) | rates
