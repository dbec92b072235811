EXP: int
SIGMOID: int
SILU: int
SOFTPLUS: int

def isas() -> list[str]: ...

class Kernels:
    def __init__(self, isa: str, threads: int) -> None: ...
    @property
    def isa(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def calls(self) -> int: ...
    def elementary(self, function: int, x: int, y: int, count: int) -> None: ...
    def quantize_q8(self, x: int, codes: int, scales: int, rows: int, columns: int) -> None: ...
    def quantize_q4i(self, x: int, codes: int, scales: int, rows: int, columns: int) -> None: ...
    def quantize_q4c(self, x: int, codes: int, scales: int, rows: int, columns: int) -> None: ...
    def rms_norm(self, x: int, weight: int, y: int, rows: int, columns: int, eps: float) -> None: ...
    def rms_norm_q8(
        self, x: int, weight: int, y: int, codes: int, scales: int, rows: int, columns: int, eps: float
    ) -> None: ...
    def mean_square(self, x: int, y: int, rows: int, columns: int) -> None: ...
    def collapse_norm(
        self,
        streams: int,
        pre: int,
        weight: int,
        y: int,
        codes: int,
        scales: int,
        rows: int,
        num_streams: int,
        columns: int,
        eps: float,
    ) -> None: ...
    def expand(
        self, x: int, streams: int, post: int, comb: int, y: int, rows: int, num_streams: int, columns: int
    ) -> None: ...
    def split_mix(
        self,
        u: int,
        mean_square: int,
        scale: int,
        base: int,
        pre: int,
        post: int,
        comb: int,
        rows: int,
        num_streams: int,
        iterations: int,
        eps: float,
        norm_eps: float,
    ) -> None: ...
    def pool_groups(self, values: int, gates: int, y: int, groups: int, ratio: int, columns: int) -> None: ...
    def gather_rows(
        self, codes: int, scales: int, row_ids: int, y_codes: int, y_scales: int, rows: int, columns: int
    ) -> None: ...
    def engram_gate(
        self,
        streams: int,
        projected: int,
        q_weight: int,
        k_weight: int,
        image_mask: int,
        y: int,
        rows: int,
        num_streams: int,
        columns: int,
        eps: float,
    ) -> None: ...
    def route(
        self,
        logits: int,
        bias: int,
        bias_vl: int,
        image_mask: int,
        expert_ids: int,
        weights: int,
        margin: int,
        rows: int,
        experts: int,
        active: int,
        route_scale: float,
    ) -> None: ...
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
    def attention(
        self,
        q: int,
        own_codes: int,
        own_scales: int,
        ring_codes: int,
        ring_scales: int,
        entry_pages: int,
        entry_codes: int,
        entry_scales: int,
        page_shift: int,
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
    def attend_step(self, sequences: list[tuple[int, ...]], *arguments: float) -> None: ...
    def rotate_rows(
        self, x: int, cos: int, sin: int, rows: int, heads: int, dim: int, pairs: int, inverse: bool, y: int
    ) -> None: ...
    def rope_table(self, positions: int, frequencies: int, rows: int, pairs: int, cos: int, sin: int) -> None: ...
    def index_select(self, *arguments: float) -> None: ...
    def index_select_step(self, sequences: list[tuple[int, ...]], *arguments: float) -> None: ...
    def enter_sublayer(self, *arguments: float) -> None: ...
    def project_in(self, *arguments: float) -> None: ...
    def project_out(self, *arguments: float) -> None: ...
    def combine(self, *arguments: object) -> None: ...
    def finish_latents(self, *arguments: float) -> None: ...
    def index_queries(self, *arguments: float) -> None: ...
    def engram_memory(self, *arguments: float) -> None: ...
    def logits(self, *arguments: float) -> None: ...
    def routed_experts(self, *arguments: object) -> None: ...
    def sum_experts(
        self, outputs: int, slots: int, shared: int, tokens: int, active: int, dim: int, y: int
    ) -> None: ...
    def swiglu_q8(
        self, gate: int, up: int, rows: int, inter: int, weights: int, limit: float, codes: int, scales: int
    ) -> None: ...
    def float4_linear(
        self,
        x_codes: int,
        x_scales: int,
        weight_codes: int,
        weight_scales: int,
        rows: int,
        outputs: int,
        inputs: int,
        y: int,
    ) -> None: ...
    def stream_read(self, base: int, starts: int, count: int, nbytes: int) -> int: ...

MOST_ROW_NBYTES: int

class RowBatch:
    @property
    def reads(self) -> int: ...
    @property
    def nbytes_read(self) -> int: ...
    def wait(self, seconds: float) -> bool: ...
    def failure(self) -> tuple[int, int] | None: ...
    def copy_to(self, bytes: int) -> None: ...

class RowReader:
    def __init__(self, uring: bool, depth: int, threads: int, shuffle: int) -> None: ...
    @property
    def kind(self) -> str: ...
    @property
    def refusal(self) -> int: ...
    def add_file(self, fd: int, direct: bool) -> int: ...
    def submit(self, files: int, starts: int, nbytes: int, count: int) -> RowBatch: ...
    def close(self) -> None: ...
