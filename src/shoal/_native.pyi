EXP: int
SIGMOID: int
SILU: int
SOFTPLUS: int

def isas() -> list[str]: ...
def quantize_q8(isa: str, x: int, codes: int, scales: int, rows: int, columns: int) -> None: ...
def block_linear(
    isa: str,
    x_codes: int,
    x_scales: int,
    weight_codes: int,
    weight_scales: int,
    weight_is_e2m1: bool,
    rows: int,
    outputs: int,
    inputs: int,
    y: int,
) -> None: ...
def halving_dots(isa: str, a: int, b: int, y: int, batch: int, rows: int, columns: int, inner: int) -> None: ...
def elementary(isa: str, function: int, x: int, y: int, count: int) -> None: ...
def split_mix(
    isa: str,
    u: int,
    scale: int,
    base: int,
    rows: int,
    streams: int,
    iterations: int,
    eps: float,
    pre: int,
    post: int,
    comb: int,
) -> None: ...

class Kernels:
    isa: str
    threads: int
    calls: int

    def __init__(self, isa: str, threads: int) -> None: ...
    def float8_linear(
        self,
        x_codes: int,
        x_scales: int,
        codes: int,
        scales: int,
        y: int,
        rows: int,
        outputs: int,
        inputs: int,
        y_stride: int,
    ) -> None: ...
    def float8_linears(
        self, x_codes: int, x_scales: int, weights: list[tuple[int, int, int, int]], rows: int, inputs: int
    ) -> None: ...
    def grouped_linear(
        self, x: int, codes: int, scales: int, y: int, rows: int, groups: int, outputs: int, inputs: int
    ) -> None: ...
    def bf16_linear(
        self, x: int, weight: int, y_float: int, y_bf16: int, rows: int, outputs: int, inputs: int
    ) -> None: ...
    def float32_linear(
        self, x: int, weight: int, y: int, mean_square: int, rows: int, outputs: int, inputs: int
    ) -> None: ...
