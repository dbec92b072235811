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
    def attention(
        self,
        q: int,
        own_codes: int,
        own_scales: int,
        ring_codes: int,
        ring_scales: int,
        entry_codes: int,
        entry_scales: int,
        selected: int,
        sink: int,
        cos: int,
        sin: int,
        tokens: int,
        heads: int,
        dim: int,
        window: int,
        topk: int,
        pairs: int,
        position: int,
        scale: float,
        y: int,
    ) -> None: ...
    def rotate_rows(
        self, x: int, cos: int, sin: int, rows: int, heads: int, dim: int, pairs: int, inverse: bool, y: int
    ) -> None: ...
    def rope_table(self, positions: int, frequencies: int, rows: int, pairs: int, cos: int, sin: int) -> None: ...
