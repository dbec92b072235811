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
    def stream_read(self, base: int, starts: int, count: int, nbytes: int) -> int: ...
