"""The Q8 quantiser of activations, for as many rows as a chunk of a prompt has."""

from collections.abc import Mapping

from shoal.bench.case import Case, Sample
from shoal.bench.workbench import Workbench

ROWS, COLUMNS = 2048, 5120


class QuantizeQ8(Case):
    """Rows of 5,120 bf16; it reads and writes, so the probe's rate is beyond it."""

    name, unit = "quantize_q8", "us a row"

    def set_up(self, bench: Workbench) -> None:
        self.x = bench.activations(ROWS, COLUMNS)

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        kernels = bench.kernels()
        return {"quantize_q8": Sample([lambda: kernels.quantize_q8(self.x)], self.x.nbytes)}

    def value(self, seconds: Mapping[str, float], ratio: float) -> float:
        return next(iter(seconds.values())) / ROWS * 1e6
