"""The indexer: one token scores 65,536 keys and selects the best 512."""

from collections.abc import Mapping

import torch

from shoal.bench.case import Case, Sample
from shoal.bench.workbench import Workbench
from shoal.ops.quantize import quantize_q4i

KEYS, HEADS, DIM, SELECTED = 65_536, 32, 128, 512
RUNS_A_SAMPLE = 4


class IndexScore(Case):
    """Nanoseconds a key, the selection included."""

    name, unit = "index_score", "ns a key"

    def set_up(self, bench: Workbench) -> None:
        self.q = quantize_q4i(bench.activations(1, HEADS, DIM))
        self.keys = quantize_q4i(bench.activations(KEYS, DIM))
        self.weights, self.visible = bench.activations(1, HEADS), torch.tensor([KEYS])

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        kernels = bench.kernels()

        def select() -> None:
            kernels.index_select(self.q, self.keys, self.weights, self.visible, SELECTED)

        return {"select": Sample([select] * RUNS_A_SAMPLE, self.keys.codes.nbytes + self.keys.scales.nbytes)}

    def value(self, seconds: Mapping[str, float], ratio: float) -> float:
        return seconds["select"] / KEYS * 1e9
