"""Every build of the elementwise kernels: the bits of the torch twin, or of one build and the twin within a bound."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from shoal.formats.float8 import E4M3_NAN
from shoal.ops.engram_gate import gate_streams, gate_streams_torch
from shoal.ops.engram_rows import gather_rows
from shoal.ops.hyper_connections import (
    Mix,
    collapse,
    collapse_norm,
    collapse_norm_q8,
    expand,
    expand_torch,
    mix_coefficients,
    split_mix,
    split_mix_torch,
)
from shoal.ops.kernels import EXP, SIGMOID, SILU, SOFTPLUS, Kernels, available_isas
from shoal.ops.pooling import pool_groups, pool_groups_torch
from shoal.ops.quantize import Q8, Quantized, quantize_q4c, quantize_q4i, quantize_q8_torch
from shoal.ops.rms_norm import rms_norm, rms_norm_q8, rms_norm_torch
from shoal.ops.routing import Router, route_logits, route_logits_torch
from shoal.ops.wide import Wide

WIDE, PORTABLE = Wide(), Kernels("portable")
EPS = 1e-20
DIM, STREAMS = 5120, 4
ROWS = (0, 1, 2, 5, 17, 64)
# One column, around sixteen lanes, a piece of an expansion and one column more, the real width.
COLUMNS = (1, 15, 16, 17, 96, 1281)
FLOAT32_UNIT = 2.0**-24
TWINS: dict[str, Callable[[Tensor], Quantized]] = {
    "quantize_q8": quantize_q8_torch,
    "quantize_q4i": quantize_q4i,
    "quantize_q4c": quantize_q4c,
}


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20261129)


@pytest.fixture(params=product(available_isas(), (1, 2)), ids=lambda pair: f"{pair[0]}-{pair[1]}", scope="module")
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return Kernels(*request.param)


def same(found: Tensor, wanted: Tensor) -> bool:
    """Equal bit for bit, any NaN being equal to any other."""
    both_nan = found.isnan() & wanted.isnan()
    signs = torch.signbit(found) == torch.signbit(wanted)
    return found.dtype == wanted.dtype and bool((both_nan | ((found == wanted) & signs)).all())


def same_codes(found: Quantized, wanted: Quantized) -> bool:
    return torch.equal(found.codes, wanted.codes) and torch.equal(found.scales, wanted.scales)


def nearly_same(found: Tensor, wanted: Tensor) -> bool:
    """Neighbours in bfloat16 at most, and 999 of 1,000 equal."""
    steps = (found.view(torch.int16).int() - wanted.view(torch.int16).int()).abs()
    return bool((steps <= 1).all()) and (steps > 0).sum().item() <= max(1, steps.numel() // 1000)


def bf16(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator).to(torch.bfloat16)


def shifted(x: Tensor) -> Tensor:
    """The same rows eight bytes after an aligned address."""
    skipped = 8 // x.element_size()
    room = torch.empty(x.numel() + skipped, dtype=x.dtype)
    return room[skipped:].view(x.shape).copy_(x)


# Quantisers


def every_finite_bfloat16() -> Tensor:
    values = torch.arange(1 << 16).to(torch.int16).view(torch.bfloat16)
    values = values[values.isfinite()]
    return values[: values.numel() // 32 * 32]


@pytest.mark.parametrize("name", TWINS)
def test_every_finite_value_beside_its_neighbours(kernels: Kernels, name: str) -> None:
    x = every_finite_bfloat16().view(-1, 32)
    assert same_codes(getattr(kernels, name)(x), TWINS[name](x))


@pytest.mark.parametrize("name", TWINS)
def test_every_finite_value_beside_strangers(kernels: Kernels, name: str, generator: torch.Generator) -> None:
    values = every_finite_bfloat16()
    x = values[torch.randperm(values.numel(), generator=generator)].view(-1, 32)
    assert same_codes(getattr(kernels, name)(x), TWINS[name](x))


@pytest.mark.parametrize("name", TWINS)
def test_values_within_a_few_binades(kernels: Kernels, name: str, generator: torch.Generator) -> None:
    # Every code and every tie of a group's grid.
    x = (torch.randint(-(2**8), 2**8 + 1, (2000, 32), generator=generator) / 64).to(torch.bfloat16)
    scaled = (x * 2.0 ** torch.randint(-12, 12, (2000, 1), generator=generator)).to(torch.bfloat16)
    assert same_codes(getattr(kernels, name)(scaled), TWINS[name](scaled))


@pytest.mark.parametrize("name", ["act_quant.x", "act_quant.multi.x"])
def test_the_rows_of_the_goldens(kernels: Kernels, name: str, goldens: Path) -> None:
    x = load_file(goldens / "ops.safetensors")[name]
    assert same_codes(kernels.quantize_q8(x), quantize_q8_torch(x))


@pytest.mark.parametrize("name", TWINS)
def test_quantiser_sizes_none_one_odd_and_real(kernels: Kernels, name: str, generator: torch.Generator) -> None:
    for shape in ((0, 32), (1, 32), (7, 96), (3, 5, 160), (17, DIM)):
        spread = 10.0 ** torch.randint(-6, 6, (*shape[:-1], 1), generator=generator)
        x = (torch.randn(shape, generator=generator) * spread).to(torch.bfloat16)
        assert same_codes(getattr(kernels, name)(x), TWINS[name](x)), shape


@pytest.mark.parametrize("name", TWINS)
def test_rows_that_start_at_an_unaligned_address(kernels: Kernels, name: str, generator: torch.Generator) -> None:
    for offset in (1, 4, 31):
        x = bf16(offset + 640, generator=generator)[offset:].view(20, 32)
        assert same_codes(getattr(kernels, name)(x), TWINS[name](x)), offset


def test_rows_that_are_not_contiguous(kernels: Kernels, generator: torch.Generator) -> None:
    x = bf16(64, 64, generator=generator).t()
    assert same_codes(kernels.quantize_q8(x), quantize_q8_torch(x))


# Functions


@pytest.mark.parametrize(
    ("function", "name"), [(EXP, "exp"), (SIGMOID, "sigmoid"), (SILU, "silu"), (SOFTPLUS, "softplus")]
)
def test_functions_everywhere(kernels: Kernels, function: int, name: str, generator: torch.Generator) -> None:
    near = torch.randn(20_000, generator=generator) * torch.tensor([1e-30, 1e-3, 1.0, 30.0]).repeat(5_000)
    edges = torch.tensor(
        [0.0, -0.0, 1e-45, -1e-45, 88.8, -104.0, 20.0, 20.000002, 3e38, -3e38, torch.inf, -torch.inf, torch.nan]
    )
    x = torch.cat((near, edges))
    assert same(kernels.elementary(function, x), getattr(WIDE, name)(x))


# Norms


@pytest.mark.parametrize("columns", [*COLUMNS, DIM])
def test_norms_of_any_width_are_within_a_neighbour_of_wide(
    kernels: Kernels, columns: int, generator: torch.Generator
) -> None:
    x, weight = bf16(3, columns, generator=generator), bf16(columns, generator=generator)
    # Squares and their sum stay within float32.
    for scale in (2.0**-50, 1.0, 2.0**50):
        found = kernels.rms_norm(x * scale, weight, EPS)
        assert same(found, PORTABLE.rms_norm(x * scale, weight, EPS))
        # The squares' sum is off by at most (columns / 16 + 4) units, its root by half of that: far below a bf16 step.
        assert nearly_same(found, rms_norm_torch(x * scale, weight, EPS, WIDE))


def test_a_norm_with_q8_is_the_norm_and_q8_of_it(kernels: Kernels, generator: torch.Generator) -> None:
    weight = bf16(160, generator=generator)
    for rows in ROWS:
        x = bf16(rows, 160, generator=generator)
        y, codes = kernels.rms_norm_q8(shifted(x), shifted(weight), EPS)
        assert same(y, PORTABLE.rms_norm(x, weight, EPS)), rows
        assert same_codes(codes, quantize_q8_torch(y)), rows


def test_a_norm_may_keep_its_codes_only(kernels: Kernels, generator: torch.Generator) -> None:
    x, weight = bf16(9, 160, generator=generator), bf16(160, generator=generator)
    _, wanted = kernels.rms_norm_q8(x, weight, EPS)
    found = Quantized(torch.zeros_like(wanted.codes), torch.zeros_like(wanted.scales), Q8)
    outputs = 0, found.codes.data_ptr(), found.scales.data_ptr()
    kernels.native.rms_norm_q8(x.data_ptr(), weight.data_ptr(), *outputs, 9, 160, EPS)
    assert same_codes(found, wanted)


@pytest.mark.parametrize("columns", [*COLUMNS, STREAMS * DIM])
def test_a_mean_square_is_within_its_bound(kernels: Kernels, columns: int, generator: torch.Generator) -> None:
    x = bf16(3, columns, generator=generator)
    found, wanted = kernels.mean_square(x), WIDE.mean_square(x.float())[:, 0]
    assert same(found, PORTABLE.mean_square(shifted(x)))
    # One unit for each addition on an element's way, one for the division, one for the twin's rounding.
    bound = (columns / 16 + 4 + 2) * FLOAT32_UNIT
    assert ((found - wanted).abs() <= bound * wanted).all()


# Hyper-connections


def mix_of(tokens: int, streams: int, generator: torch.Generator) -> Mix:
    pre, post = (torch.randn((tokens, streams), generator=generator) for _ in range(2))
    return Mix(pre, post, torch.randn((tokens, streams, streams), generator=generator))


def test_a_collapse_is_the_twins_and_its_norm_the_kernels(kernels: Kernels, generator: torch.Generator) -> None:
    for tokens, streams, dim in (*product(ROWS, (4,), (96,)), (3, 3, 64), (2, 4, 17), (2, 4, DIM)):
        h, weight = bf16(tokens, streams, dim, generator=generator), bf16(dim, generator=generator)
        pre = mix_of(tokens, streams, generator).pre
        wanted = kernels.rms_norm(collapse(h, pre), weight, EPS)
        assert same(kernels.collapse_norm(shifted(h), pre, weight, EPS), wanted), (tokens, streams, dim)
        if dim % Q8.group == 0:
            y, codes = kernels.collapse_norm_q8(h, shifted(pre), weight, EPS)
            assert same(y, wanted) and same_codes(codes, quantize_q8_torch(wanted)), (tokens, streams, dim)


def test_a_collapse_may_keep_its_codes_only(kernels: Kernels, generator: torch.Generator) -> None:
    h, weight = bf16(9, 4, 64, generator=generator), bf16(64, generator=generator)
    pre = mix_of(9, 4, generator).pre
    _, wanted = kernels.collapse_norm_q8(h, pre, weight, EPS)
    found = Quantized(torch.zeros_like(wanted.codes), torch.zeros_like(wanted.scales), Q8)
    outputs = 0, found.codes.data_ptr(), found.scales.data_ptr()
    kernels.native.collapse_norm(h.data_ptr(), pre.data_ptr(), weight.data_ptr(), *outputs, 9, 4, 64, EPS)
    assert same_codes(found, wanted)


def test_an_expansion_is_the_twins(kernels: Kernels, generator: torch.Generator) -> None:
    for tokens, (streams, dim) in product((0, 1, 5), (*product((4,), (*COLUMNS, DIM)), (1, 17), (3, 40))):
        h, x = bf16(tokens, streams, dim, generator=generator), bf16(tokens, dim, generator=generator)
        mix = mix_of(tokens, streams, generator)
        found = kernels.expand(shifted(x), shifted(h), mix.post, shifted(mix.comb))
        assert same(found, expand_torch(x, h, mix)), (tokens, streams, dim)


@pytest.mark.parametrize("streams", [3, 4])
def test_streams_are_expanded_in_place(kernels: Kernels, streams: int, generator: torch.Generator) -> None:
    h, x = bf16(5, streams, 1300, generator=generator), bf16(5, 1300, generator=generator)
    mix = mix_of(5, streams, generator)
    wanted = expand_torch(x, h, mix)
    inputs = [tensor.data_ptr() for tensor in (x, h, mix.post, mix.comb)]
    kernels.native.expand(*inputs, h.data_ptr(), 5, streams, 1300)
    assert same(h, wanted)


@pytest.mark.parametrize("streams", [1, 3, 4, 5])
def test_mixes(kernels: Kernels, streams: int, generator: torch.Generator) -> None:
    coefficients = streams * (streams + 2)
    for tokens, iterations in ((0, 20), (1, 20), (33, 1), (33, 2), (33, 20)):
        u, base = (torch.randn(shape, generator=generator) * 3 for shape in ((tokens, coefficients), (coefficients,)))
        scale = torch.tensor([0.5, 1.0, 2.0])
        found = kernels.split_mix(u, None, scale, base, streams, iterations, 1e-6, EPS)
        wanted = split_mix_torch(u, scale, base, streams, iterations, 1e-6, WIDE)
        assert all(same(*pair) for pair in zip(found, (wanted.pre, wanted.post, wanted.comb), strict=True))


def test_a_mix_norms_what_was_projected(kernels: Kernels, generator: torch.Generator) -> None:
    u, base = torch.randn((7, 24), generator=generator) * 30, torch.randn(24, generator=generator)
    mean_square, scale = torch.rand(7, generator=generator) * 100, torch.tensor([0.5, 1.0, 2.0])
    found = kernels.split_mix(u, mean_square, scale, base, 4, 20, 1e-6, 1e-3)
    wanted = split_mix_torch(u * WIDE.rsqrt(mean_square + 1e-3)[:, None], scale, base, 4, 20, 1e-6, WIDE)
    assert all(same(*pair) for pair in zip(found, (wanted.pre, wanted.post, wanted.comb), strict=True))


# Pooling


@pytest.mark.parametrize(("groups", "ratio", "dim"), [(0, 2, 32), (1, 1, 16), (17, 2, 512), (5, 3, 17), (3, 4, 1)])
def test_groups_are_pooled_to_the_twins_bits(
    kernels: Kernels, groups: int, ratio: int, dim: int, generator: torch.Generator
) -> None:
    values, gates = (torch.randn((groups, ratio, dim), generator=generator) for _ in range(2))
    for spread in (1e-3, 3.0, 300.0):
        wanted = pool_groups_torch(values, gates * spread, WIDE)
        assert same(kernels.pool_groups(shifted(values), shifted(gates * spread)), wanted)


# Engram


def table_of(rows: int, columns: int, low: int, high: int, generator: torch.Generator) -> Quantized:
    codes = torch.randint(0, 256, (rows, columns), generator=generator, dtype=torch.uint8)
    codes = torch.where((codes & E4M3_NAN) == E4M3_NAN, 0, codes).to(torch.uint8)
    # Some groups of small codes, whose scale Q8 would have chosen smaller.
    codes[::2] &= 0x9F
    scales = torch.randint(low, high, (rows, columns // 32), generator=generator, dtype=torch.uint8)
    return Quantized(codes, scales, Q8)


@pytest.mark.parametrize(("low", "high"), [(0, 3), (90, 110), (110, 125), (0, 246)])
def test_gathered_rows_are_q8_of_the_dequantised(
    kernels: Kernels, low: int, high: int, generator: torch.Generator
) -> None:
    table = table_of(50, 256, low, high, generator)
    for count in (0, 1, 24, 65):
        row_ids = torch.randint(0, 50, (count,), generator=generator)
        assert same_codes(kernels.gather_rows(table, row_ids), quantize_q8_torch(table[row_ids].dequantize()))


def test_a_table_without_ids_is_taken_whole(kernels: Kernels, generator: torch.Generator) -> None:
    table = table_of(19, 96, 100, 130, generator)
    assert same_codes(kernels.gather_rows(table), quantize_q8_torch(table.dequantize()))


def gate_inputs(tokens: int, streams: int, dim: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    shapes = (tokens, streams, dim), (tokens, (streams + 1) * dim), (streams, dim), (streams, dim)
    return tuple(bf16(*shape, generator=generator) for shape in shapes)


def twin_of_gate(h: Tensor, projected: Tensor, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    parts = projected.unflatten(1, (h.shape[1] + 1, -1))
    return gate_streams_torch(h, parts[:, :-1], parts[:, -1], q, k, mask, EPS, WIDE)


@pytest.mark.parametrize(("tokens", "streams", "dim"), [(0, 4, 32), (5, 4, 96), (3, 2, 17), (2, 4, DIM)])
def test_gates_are_within_their_bound(
    kernels: Kernels, tokens: int, streams: int, dim: int, generator: torch.Generator
) -> None:
    inputs = gate_inputs(tokens, streams, dim, generator)
    found, wanted = kernels.engram_gate(*map(shifted, inputs), None, EPS), twin_of_gate(*inputs, None)
    assert same(found, PORTABLE.engram_gate(*inputs, None, EPS))
    assert nearly_same(found, wanted)


def test_an_image_row_takes_nothing(kernels: Kernels, generator: torch.Generator) -> None:
    inputs = gate_inputs(5, 4, 96, generator)
    inputs[0][1, :, :7] = -0.0
    mask = torch.tensor([False, True, False, True, True])
    found = kernels.engram_gate(*inputs, mask, EPS)
    assert same(found[mask], twin_of_gate(*inputs, mask)[mask])
    assert same(found[~mask], kernels.engram_gate(*inputs, None, EPS)[~mask])


# Router


def same_routes(kernels: Kernels, logits: Tensor, bias: Tensor, mask: Tensor | None, active: int) -> bool:
    found = kernels.route(logits, bias, -bias, mask, active, 1.5)
    gate = torch.zeros((logits.shape[1], 1), dtype=torch.bfloat16)
    wanted = route_logits_torch(logits, Router(gate, bias, -bias, active, 1.5), mask, WIDE)
    ids, weights, margin = found
    return torch.equal(ids, wanted.expert_ids) and same(weights, wanted.weights) and same(margin, wanted.margin)


@pytest.mark.parametrize(("tokens", "experts", "active"), [(0, 8, 2), (17, 384, 6), (64, 128, 3), (5, 7, 1), (4, 5, 5)])
def test_routes_are_the_twins(
    kernels: Kernels, tokens: int, experts: int, active: int, generator: torch.Generator
) -> None:
    logits, bias = torch.randn((tokens, experts), generator=generator), torch.randn(experts, generator=generator)
    mask = torch.rand(tokens, generator=generator) < 0.5
    for spread, chosen in product((1e-3, 1.0, 40.0), (None, mask)):
        assert same_routes(kernels, shifted(logits * spread), shifted(bias), chosen, active)


def test_equal_scores_go_to_the_lower_expert(kernels: Kernels, generator: torch.Generator) -> None:
    logits = torch.randint(-2, 2, (33, 96), generator=generator).float()
    assert same_routes(kernels, logits, torch.zeros(96), None, 6)


def test_hopeless_scores_still_have_weights(kernels: Kernels) -> None:
    assert same_routes(kernels, torch.full((3, 20), -200.0), torch.zeros(20), None, 4)


# What takes them


class Kerneled(Wide):
    """Wide arithmetic that has kernels."""

    kernels = PORTABLE


def test_operators_take_the_kernels_of_their_arithmetic(generator: torch.Generator) -> None:
    arithmetic = Kerneled()
    h, projected, q, k = gate_inputs(3, 4, 32, generator)
    x, weight, mix = projected[:, :32].contiguous(), q[0].contiguous(), mix_of(3, 4, generator)
    u, groups = torch.randn((3, 24), generator=generator), torch.randn((3, 2, 16), generator=generator)
    experts, bias = bf16(24, 32, generator=generator), torch.zeros(24)
    operators: list[Callable[[], object]] = [
        lambda: arithmetic.quantize_q4i(x),
        lambda: arithmetic.quantize_q4c(x),
        lambda: rms_norm(x, weight, EPS, arithmetic),
        lambda: rms_norm_q8(x, weight, EPS, arithmetic),
        lambda: collapse_norm(h, mix.pre, weight, EPS, arithmetic),
        lambda: collapse_norm_q8(h, mix.pre, weight, EPS, arithmetic),
        lambda: expand(x, h, mix, arithmetic),
        lambda: split_mix(u, torch.ones(3), torch.zeros(24), 4, 20, 1e-6, arithmetic),
        lambda: mix_coefficients(h, torch.randn((24, 128), generator=generator), EPS, arithmetic),
        lambda: pool_groups(groups, groups, arithmetic),
        lambda: gather_rows(quantize_q8_torch(x), None, arithmetic),
        lambda: gate_streams(h, h, x, q, k, None, EPS, arithmetic),
        lambda: route_logits(u, Router(experts, bias, bias, 2, 1.5), None, arithmetic),
    ]
    for number, operator in enumerate(operators):
        before = PORTABLE.native.calls
        operator()
        assert PORTABLE.native.calls == before + 1, number


# Rows and threads


def test_a_row_has_the_same_bits_in_any_batch(kernels: Kernels, generator: torch.Generator) -> None:
    h, projected, q, k = gate_inputs(17, 4, 160, generator)
    x, weight, mix = projected[:, :160].contiguous(), q[0].contiguous(), mix_of(17, 4, generator)
    operators: dict[str, Callable[[slice], Tensor]] = {
        "rms_norm": lambda rows: kernels.rms_norm(x[rows], weight, EPS),
        "mean_square": lambda rows: kernels.mean_square(x[rows]),
        "collapse_norm": lambda rows: kernels.collapse_norm(h[rows], mix.pre[rows], weight, EPS),
        "expand": lambda rows: kernels.expand(x[rows], h[rows], mix.post[rows], mix.comb[rows]),
        "engram_gate": lambda rows: kernels.engram_gate(h[rows], projected[rows], q, k, None, EPS),
    }
    for name, operator in operators.items():
        whole = operator(slice(0, 17))
        for count in range(1, 17):
            parts = [operator(slice(i, i + count)) for i in range(0, 17, count)]
            assert same(torch.cat(parts), whole), (name, count)
