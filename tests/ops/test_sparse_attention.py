"""Attention with a sink over lists of keys, against a plain float64 softmax; the native kernels, against their twin."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from shoal.ops import sparse_attention as sparse_attention_module
from shoal.ops.kernels import Kernels, available_isas
from shoal.ops.quantize import Quantized, quantize_q4c, quantize_q8_torch
from shoal.ops.rope import rope_frequencies, rotation_at
from shoal.ops.rotation import Rotation
from shoal.ops.sparse_attention import (
    COLUMNS_AT_ONCE,
    SelectedEntries,
    WindowKeys,
    attend,
    attend_torch,
    sparse_attention,
)
from shoal.ops.wide import Wide

HEADS, DIM, ROWS = 4, 64, 150
W = Wide()


def inputs(seed: int, tokens: int, columns: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q and keys whose softmax is not flat, lists with absent columns, sinks."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(tokens, HEADS, DIM, generator=generator).to(torch.bfloat16)
    pool = torch.randn(ROWS, DIM, generator=generator).to(torch.bfloat16)
    listed = torch.randint(-1, ROWS, (tokens, columns), generator=generator)
    return q, pool, listed, torch.randn(HEADS, generator=generator)


def plain(q: Tensor, pool: Tensor, columns: Tensor, sink: Tensor) -> Tensor:
    """Float64 throughout: nothing rounded, no running maximum."""
    keys = pool[columns.clamp_min(0)].double()
    weights = (torch.einsum("thd,tkd->thk", q.double(), keys) * DIM**-0.5).exp()
    weights = weights * (columns >= 0)[:, None]
    denominator = weights.sum(-1) + sink.double().exp()
    return torch.einsum("thk,tkd->thd", weights, keys) / denominator[..., None]


@settings(max_examples=15)
@given(st.integers(0, 1000), st.integers(0, COLUMNS_AT_ONCE))
def test_a_list_of_one_block_is_a_softmax_of_rounded_probabilities(seed: int, columns: int) -> None:
    q, pool, listed, sink = inputs(seed, 3, columns)
    found = sparse_attention(q, pool, listed, sink, W).double()
    # A probability is off by at most 2^-8 of itself, and so is the result: 2^-7 and a little.
    keys = pool[listed.clamp_min(0)].double().abs()
    weights = torch.einsum("thd,tkd->thk", q.double(), pool[listed.clamp_min(0)].double()) * DIM**-0.5
    weights = weights.exp() * (listed >= 0)[:, None]
    mass = torch.einsum("thk,tkd->thd", weights, keys) / (weights.sum(-1) + sink.double().exp())[..., None]
    assert ((found - plain(q, pool, listed, sink)).abs() <= mass * 2.0**-6.99).all()


def test_a_longer_list_is_close_to_the_softmax() -> None:
    q, pool, listed, sink = inputs(1, 5, 200)
    found, wanted = sparse_attention(q, pool, listed, sink, W).double(), plain(q, pool, listed, sink)
    assert (found - wanted).norm() / wanted.norm() < 2**-8


@pytest.mark.parametrize("columns", [0, 1, 64, 65, 130])
def test_a_row_that_selected_nothing_is_zero(columns: int) -> None:
    q, pool, listed, sink = inputs(2, 3, columns)
    listed[1] = -1
    found = sparse_attention(q, pool, listed, sink, W)
    assert not found[1].any() and found.isfinite().all()
    assert columns == 0 or found[0].any()


def test_a_row_whose_keys_come_in_the_second_block_is_finite() -> None:
    q, pool, listed, sink = inputs(3, 2, 130)
    listed[:, :COLUMNS_AT_ONCE] = -1
    found = sparse_attention(q, pool, listed, sink, W)
    assert torch.equal(found, sparse_attention(q, pool, listed[:, COLUMNS_AT_ONCE:], sink, W))


def test_absent_columns_at_the_end_change_nothing() -> None:
    q, pool, listed, sink = inputs(4, 3, 40)
    longer = torch.cat((listed, torch.full((3, 100), -1)), dim=1)
    found = sparse_attention(q, pool, listed, sink, W)
    assert torch.equal(sparse_attention(q, pool, longer, sink, W), found)


def test_a_key_listed_twice_counts_twice() -> None:
    q, pool, _, sink = inputs(5, 1, 1)
    sink = torch.full((HEADS,), -math.inf)
    found = sparse_attention(q, pool, torch.tensor([[3, 3, 8]]), sink, W).double()
    wanted = plain(q, pool, torch.tensor([[3, 3, 8]]), sink)
    assert (found - wanted).norm() / wanted.norm() < 2**-8
    once = plain(q, pool, torch.tensor([[3, 8]]), sink)
    assert (once - wanted).norm() / wanted.norm() > 2**-6


def test_one_key_without_a_sink_is_itself() -> None:
    q, pool, _, _ = inputs(6, 1, 1)
    found = sparse_attention(q, pool, torch.tensor([[9]]), torch.full((HEADS,), -math.inf), W)
    assert torch.equal(found[0], pool[9].expand(HEADS, -1))


def test_the_sink_takes_its_share_and_no_scale() -> None:
    q = torch.zeros(1, HEADS, DIM, dtype=torch.bfloat16)
    pool = torch.ones(1, DIM, dtype=torch.bfloat16)
    sink = torch.tensor([0.0, math.log(3.0), -50.0, 50.0])
    found = sparse_attention(q, pool, torch.tensor([[0]]), sink, W)[0, :, 0].tolist()
    assert found[:3] == [0.5, 0.25, 1.0] and found[3] == pytest.approx(math.exp(-50), rel=2**-8)


@pytest.mark.parametrize("columns", [7, 64, 65, 140])
def test_a_row_has_the_same_bits_alone(columns: int) -> None:
    q, pool, listed, sink = inputs(7, 6, columns)
    whole = sparse_attention(q, pool, listed, sink, W)
    for token in range(6):
        one = slice(token, token + 1)
        assert torch.equal(sparse_attention(q[one], pool, listed[one], sink, W), whole[one])


def test_where_rows_lie_in_the_pool_changes_nothing() -> None:
    q, pool, listed, sink = inputs(8, 4, 70)
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    moved = torch.where(listed >= 0, order.argsort()[listed.clamp_min(0)], -1)
    assert torch.equal(sparse_attention(q, pool[order], moved, sink, W), sparse_attention(q, pool, listed, sink, W))


# A chunk of a sequence, natively


Chunk = tuple[Tensor, WindowKeys, SelectedEntries | None, Tensor, Rotation]
NO_SINK = -math.inf
ENTRIES = 300


@pytest.fixture(
    params=[(isa, threads) for isa in available_isas() for threads in (1, 2)], ids=lambda p: f"{p[0]}-{p[1]}"
)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return Kernels(*request.param)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator).to(torch.bfloat16)


def chunk(
    tokens: int, heads: int, dim: int, window: int, topk: int, position: int, pairs: int, listed: int | None = None
) -> Chunk:
    """Queries and keys whose softmax is not flat; lists of 0 to `listed` of ENTRIES entries in `topk` columns."""
    generator = torch.Generator().manual_seed(tokens * 1000 + dim)
    selected = torch.full((tokens, topk), -1)
    for row in selected:
        count = int(torch.randint(0, min(topk, listed or ENTRIES) + 1, (1,), generator=generator))
        row[:count] = torch.randperm(ENTRIES, generator=generator)[:count].sort().values
    rotation = rotation_at(torch.arange(position, position + tokens), rope_frequencies(10000.0, 2 * pairs, None), W)
    return (
        normal(generator, tokens, heads, dim) * 2,
        WindowKeys(
            quantize_q8_torch(normal(generator, window, dim)),
            quantize_q8_torch(normal(generator, tokens, dim)),
            position,
        ),
        SelectedEntries(quantize_q4c(normal(generator, ENTRIES, dim)), selected) if topk else None,
        torch.randn(heads, generator=generator),
        rotation,
    )


def part(whole: Chunk, start: int, end: int) -> Chunk:
    """Rows start..end−1 as a chunk of their own, the ring written by the rows before them."""
    q, window, compressed, sink, rotation = whole
    rows, ring = slice(start, end), window.ring
    codes, scales, size = ring.codes.clone(), ring.scales.clone(), ring.codes.shape[0]
    for row in range(start):
        slot = (window.position + row) % size
        codes[slot], scales[slot] = window.own.codes[row], window.own.scales[row]
    held = WindowKeys(Quantized(codes, scales, ring.format), window.own[rows], window.position + start)
    if compressed is not None:
        compressed = replace(compressed, selected=compressed.selected[rows])
    return q[rows], held, compressed, sink, rotation[rows]


def same_bits(found: Tensor, wanted: Tensor) -> bool:
    return found.dtype == wanted.dtype and torch.equal(found.view(torch.int16), wanted.view(torch.int16))


def judge(case: Chunk) -> Tensor:
    """The first build on one thread: what every other must equal."""
    return Kernels(available_isas()[0]).attention(*case)


SHAPES = [
    (0, 4, 32, 8, 4, 3, 8),
    (1, 1, 32, 4, 0, 0, 4),
    (3, 4, 64, 8, 16, 20, 8),
    (2, 17, 96, 65, 70, 40, 0),
    (1, 64, 512, 128, 160, 5000, 32),
    (33, 16, 32, 128, 130, 100, 16),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_build_and_number_of_threads_gives_the_same_bits(
    kernels: Kernels, shape: tuple[int, int, int, int, int, int, int]
) -> None:
    case = chunk(*shape)
    assert same_bits(kernels.attention(*case), judge(case))


def in_order(terms: Tensor, total: Tensor) -> Tensor:
    """total + terms[..., 0] + terms[..., 1] + …, a rounding each."""
    for term in terms.unbind(-1):
        total = total + term
    return total


def written(q: Tensor, pool: Tensor, columns: Tensor, sink: Tensor, _: Wide) -> Tensor:
    """The order native/attention.cpp writes down. Its products are exact in float32: 8 bits by 6."""
    maximum = torch.full(q.shape[:2], -1e30)
    denominator, sums = torch.zeros(q.shape[:2]), torch.zeros(q.shape)
    scale = torch.tensor(q.shape[2] ** -0.5)
    for block in columns.split(COLUMNS_AT_ONCE, dim=1):
        keys = pool[block.clamp_min(0)].float()
        scores = in_order(q.float()[:, :, None] * keys[:, None], torch.tensor(0.0)) * scale
        scores = scores.masked_fill((block < 0)[:, None], -math.inf)
        highest = torch.maximum(maximum, scores.amax(-1))
        kept, p = W.exp(maximum - highest), W.exp(scores - highest[..., None])
        total = in_order(p, torch.tensor(0.0)).double()
        denominator = (denominator.double() * kept + total).float()
        rounded = p.to(torch.bfloat16).float()
        products = rounded[:, :, None] * keys.transpose(1, 2)[:, None]
        sums, maximum = in_order(products, sums * kept[..., None]), highest
    denominator = denominator + W.exp(sink - maximum)
    return (sums / denominator[..., None]).to(torch.bfloat16)


def cancelling(case: Chunk) -> Chunk:
    """The same with a huge first term in every score and its negative last: every sum between them is rounded hard."""
    q, window, compressed, sink, rotation = case

    def framed(keys: Tensor) -> Tensor:
        keys[:, 0], keys[:, -1] = 4.0, -4.0
        return keys

    q[..., 0] = q[..., -1] = 2.0**19
    ring, own = (quantize_q8_torch(framed(rows.dequantize())) for rows in (window.ring, window.own))
    assert compressed is not None
    entries = quantize_q4c(framed(compressed.entries.dequantize()))
    return q, WindowKeys(ring, own, window.position), replace(compressed, entries=entries), sink, rotation


@pytest.mark.parametrize(
    "shape", [(3, 4, 64, 8, 70, 20, 8), (2, 17, 96, 65, 70, 40, 16), (1, 2, 512, 128, 130, 200, 32)]
)
@pytest.mark.parametrize("change", [lambda case: case, cancelling], ids=["plain", "cancelling"])
def test_every_kernel_adds_in_the_written_order(
    kernels: Kernels,
    shape: tuple[int, int, int, int, int, int, int],
    change: Callable[[Chunk], Chunk],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = change(chunk(*shape))
    monkeypatch.setattr(sparse_attention_module, "sparse_attention", written)
    assert same_bits(kernels.attention(*case), attend_torch(*case, W))


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_a_kernel_is_within_a_rounding_of_its_twin(shape: tuple[int, int, int, int, int, int, int]) -> None:
    case = chunk(*shape)
    found, wanted = judge(case).double(), attend_torch(*case, W).double()
    ulp = 2.0 ** (wanted.abs().clamp_min(2.0**-126).log2().floor() - 7)
    assert ((found - wanted).abs() <= ulp).double().mean() >= 0.999
    # Where a sum cancels an ulp is small. A probability may round to its other neighbour, 2^-8 of itself; that and the
    # result's own rounding are at most 2^-7 of the largest key.
    largest = max(case[1].own.dequantize().abs().max(), case[1].ring.dequantize().abs().max())
    if case[2] is not None:
        largest = max(largest, case[2].entries.dequantize().abs().max())
    assert (found - wanted).abs().max() <= largest * 2.0**-7


def test_attend_takes_the_kernel_there_is_and_the_twin_otherwise() -> None:
    case = chunk(*SHAPES[2])
    native = Wide()
    native.kernels = Kernels()
    calls = native.kernels.native.calls
    assert same_bits(attend(*case, native), judge(case)) and native.kernels.native.calls == calls + 1
    assert same_bits(attend(*case, W), attend_torch(*case, W))


@pytest.mark.parametrize("position", [0, 3, 8, 1000])
def test_a_chunk_may_be_cut_anywhere(kernels: Kernels, position: int) -> None:
    whole = chunk(18, 3, 32, 8, 70, position, 8)
    wanted = judge(whole)
    for sizes in ([1] * 18, [17, 1], [9, 9], [2, 16]):
        ends = torch.tensor(sizes).cumsum(0).tolist()
        parts = [kernels.attention(*part(whole, end - size, end)) for size, end in zip(sizes, ends, strict=True)]
        assert same_bits(torch.cat(parts), wanted)


@pytest.mark.parametrize("tokens", [64, 300])
def test_a_row_of_many_has_the_bits_it_has_alone(kernels: Kernels, tokens: int) -> None:
    whole = chunk(tokens, 2, 32, 8, 6, 11, 4)
    found = kernels.attention(*whole)
    for token in (0, 1, tokens // 2, tokens - 1):
        assert same_bits(kernels.attention(*part(whole, token, token + 1)), found[token : token + 1])


def test_keys_that_do_not_fit_working_room_at_once_change_nothing(kernels: Kernels) -> None:
    case = chunk(5, 2, 32, 8, 60000, 11, 4, listed=9)
    q, window, compressed, sink, rotation = case
    assert compressed is not None
    short = replace(compressed, selected=compressed.selected[:, :9])
    assert same_bits(kernels.attention(*case), kernels.attention(q, window, short, sink, rotation))


def test_absent_entries_are_no_entries(kernels: Kernels) -> None:
    q, window, compressed, sink, rotation = chunk(3, 4, 64, 8, 16, 20, 8)
    assert compressed is not None
    nothing = replace(compressed, selected=torch.full((3, 16), -1))
    found = kernels.attention(q, window, nothing, sink, rotation)
    assert same_bits(found, kernels.attention(q, window, None, sink, rotation))


def test_one_key_without_a_sink_is_itself_natively(kernels: Kernels) -> None:
    q, window, _, sink, rotation = chunk(1, 5, 64, 8, 0, 0, 0)
    found = kernels.attention(q, window, None, torch.full_like(sink, NO_SINK), rotation)
    assert torch.equal(found[0], window.own.dequantize().expand(5, -1))


def test_a_sink_that_outweighs_every_key_leaves_zero(kernels: Kernels) -> None:
    q, window, compressed, sink, rotation = chunk(3, 4, 64, 8, 16, 20, 8)
    assert not kernels.attention(q, window, compressed, torch.full_like(sink, 1e9), rotation).any()


@pytest.mark.parametrize("factor", [1e-38, 1e-4, 1e3, 1e18, 1e38])
def test_queries_and_keys_of_any_size(kernels: Kernels, factor: float) -> None:
    q, window, compressed, sink, rotation = chunk(3, 4, 64, 8, 70, 20, 8)
    case = (q * factor, window, compressed, sink, rotation)
    assert same_bits(kernels.attention(*case), judge(case))
    large = WindowKeys(quantize_q8_torch(window.ring.dequantize() * factor), window.own, window.position)
    case = (q, large, compressed, sink, rotation)
    assert same_bits(kernels.attention(*case), judge(case))


def test_every_code_and_scale_of_a_key() -> None:
    """A lone key is its own value, whatever its codes: NaN codes and scales no quantiser makes apart."""
    codes = torch.arange(256, dtype=torch.uint8)
    codes = codes[codes & 0x7F != 0x7F].repeat(2)[:480].view(1, 480)
    for scale in (16, 100, 127, 200, 246):
        own = Quantized(
            codes, torch.full((1, 15), scale, dtype=torch.uint8), quantize_q8_torch(torch.zeros(32).bfloat16()).format
        )
        q, ring = torch.zeros(1, 1, 480, dtype=torch.bfloat16), own
        rotation = Rotation(torch.empty(1, 0), torch.empty(1, 0))
        for isa in available_isas():
            found = Kernels(isa).attention(q, WindowKeys(ring, own, 0), None, torch.tensor([NO_SINK]), rotation)
            assert torch.equal(found[0], own.dequantize())


def moved(x: Tensor) -> Tensor:
    """The same values 8 bytes past an aligned address."""
    room = torch.zeros(x.nbytes + 72, dtype=torch.uint8)
    start = -room.data_ptr() % 64 + 8
    copy = room[start : start + x.nbytes].view(x.dtype).view(x.shape)
    copy.copy_(x)
    assert copy.data_ptr() % 64 == 8
    return copy


def test_where_tensors_lie_changes_nothing(kernels: Kernels) -> None:
    case = chunk(3, 4, 64, 8, 70, 20, 8)
    q, window, compressed, sink, rotation = case
    assert compressed is not None
    own, ring, entries = (
        replace(r, codes=moved(r.codes), scales=moved(r.scales)) for r in (window.own, window.ring, compressed.entries)
    )
    found = kernels.attention(
        moved(q),
        WindowKeys(ring, own, window.position),
        SelectedEntries(entries, moved(compressed.selected)),
        moved(sink),
        Rotation(moved(rotation.cos), moved(rotation.sin)),
    )
    assert same_bits(found, judge(case))
