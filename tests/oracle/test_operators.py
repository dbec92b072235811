"""Each operator alone against the released code's: exact wherever a correctly rounded result leaves no choice."""

from collections.abc import Callable
from math import exp

import pytest
import torch
from torch import Tensor

from shoal.formats.float4 import decode_e2m1, unpack_e2m1
from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.hyper_connections import Mix, split_mix
from shoal.ops.index_scores import candidate_positions
from shoal.ops.quantize import Q8, Quantized, quantize_q4c, quantize_q4i, quantize_q8_torch
from shoal.ops.release import Release
from shoal.ops.rms_norm import rms_norm
from shoal.ops.rope import Yarn, rope_frequencies, rotate, rotation_at
from shoal.ops.rotation import Rotation
from shoal.ops.routing import Router, Routes, route
from shoal.ops.sparse_attention import sparse_attention
from shoal.ops.weights import Float4Weight, Float8Weight
from shoal.ops.wide import Wide

Golden = dict[str, Tensor]
both = pytest.mark.parametrize("arithmetic", [Wide(), Release()], ids=lambda arithmetic: arithmetic.name)
YARNS = {"mini": (32, Yarn(16.0, 128, 32.0, 1.0)), "release": (64, Yarn(16.0, 65536, 32.0, 1.0))}
# The released code's exponential of this one difference is the upper of two neighbours, the true value lying
# 0.4977 ulp above the lower one: token, row, column of the Sinkhorn golden.
ROUNDED_UP = (6, 2, 3)


@pytest.fixture(scope="session")
def ops(golden: Callable[[str], Golden]) -> Golden:
    return golden("ops")


@pytest.fixture(scope="session")
def rope(golden: Callable[[str], Golden]) -> Golden:
    return golden("rope")


def _same_bytes(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def _ulps(a: Tensor, b: Tensor) -> Tensor:
    """How many float32 numbers lie between two tensors of equal signs."""
    assert torch.equal(torch.signbit(a), torch.signbit(b))
    return (a.view(torch.int32).long() - b.view(torch.int32).long()).abs()


@pytest.mark.parametrize(
    ("name", "codes", "quantize"),
    [
        ("act_quant", "q", quantize_q8_torch),
        ("fp4_e8m0", "packed", quantize_q4i),
        ("fp4_e4m3", "packed", quantize_q4c),
    ],
)
def test_a_quantiser_has_the_goldens_bytes(
    name: str, codes: str, quantize: Callable[[Tensor], Quantized], ops: Golden
) -> None:
    found = quantize(ops[f"{name}.x"])
    assert _same_bytes(found.codes, ops[f"{name}.{codes}"])
    assert _same_bytes(found.scales, ops[f"{name}.scale"])
    assert _same_bytes(found.dequantize(), ops[f"{name}.inplace"])


def test_q8_of_rows_of_several_groups_has_the_goldens_bytes(ops: Golden) -> None:
    found = quantize_q8_torch(ops["act_quant.multi.x"])
    assert _same_bytes(found.codes, ops["act_quant.multi.q"])
    assert _same_bytes(found.scales, ops["act_quant.multi.scale"])


def test_every_byte_unpacks_to_the_goldens_two_values(ops: Golden) -> None:
    every_byte = torch.arange(256, dtype=torch.uint8)[:, None]
    assert torch.equal(decode_e2m1(unpack_e2m1(every_byte)), ops["fp4.unpack_all_bytes"])


@both
@pytest.mark.parametrize("kind", ["fp8", "fp4"])
def test_a_quantised_product_is_exact(kind: str, arithmetic: Arithmetic, ops: Golden) -> None:
    x = Quantized(ops["fp8_gemm.a_q"].view(torch.uint8), ops["fp8_gemm.a_scale"].view(torch.uint8), Q8)
    codes = ops["fp8_gemm.w" if kind == "fp8" else "fp4_gemm.w_packed"].view(torch.uint8)
    scales = ops[f"{kind}_gemm.w_scale"].view(torch.uint8)
    weight = Float8Weight(codes, scales) if kind == "fp8" else Float4Weight(codes, scales)
    assert _same_bytes(arithmetic.quantized_linear(x, weight), ops[f"{kind}_gemm.out"])


@both
def test_rms_norm_is_exact(arithmetic: Arithmetic, ops: Golden) -> None:
    assert _same_bytes(rms_norm(ops["rmsnorm.x"], ops["rmsnorm.w"], 1e-20, arithmetic), ops["rmsnorm.out"])


@both
def test_attention_is_exact(arithmetic: Arithmetic, ops: Golden) -> None:
    q, pool, columns = (ops[f"sparse_attn.{part}"][0] for part in ("q", "kv", "idx"))
    found = sparse_attention(q, pool, columns.long(), ops["sparse_attn.sink"], arithmetic)
    assert _same_bytes(found, ops["sparse_attn.out"][0])
    assert not torch.equal(found, ops["sparse_attn.out_exact_fp32_p"][0])


def _route(ops: Golden, mask: Tensor | None, arithmetic: Arithmetic) -> Routes:
    weights = (ops["gate.weight"], ops["gate.bias"], ops["gate.bias_vl"])
    return route(ops["gate.x"], Router(*weights, 3, 1.5), mask, arithmetic)


@both
@pytest.mark.parametrize("kind", ["text", "masked"])
def test_the_router_chooses_the_goldens_experts(kind: str, arithmetic: Arithmetic, ops: Golden) -> None:
    routes = _route(ops, ops["gate.mask"] if kind == "masked" else None, arithmetic)
    assert torch.equal(routes.expert_ids.int(), ops[f"gate.{kind}.indices"])
    # A score is a sum of 96 products, a softplus, a root and a quotient: a few roundings of 2^-24.
    torch.testing.assert_close(routes.weights, ops[f"gate.{kind}.weights"], rtol=4 * 2.0**-24, atol=0)


@both
@pytest.mark.parametrize(("name", "count", "size"), [("k1_b8", 1, 8), ("k2_b8", 2, 8), ("k9_b4", 9, 4)])
def test_prefill_candidates_are_the_goldens(
    name: str, count: int, size: int, arithmetic: Arithmetic, ops: Golden
) -> None:
    scores, visible = ops["candidates.logits"], ops["candidates.lens"][:, 0].long()
    scores = scores.masked_fill(torch.arange(scores.shape[1]) >= visible[:, None], -torch.inf)
    found = candidate_positions(scores, visible, size, count, arithmetic)
    assert torch.equal(found, ops[f"candidates.{name}"])


@both
@pytest.mark.parametrize("visible", [33, 37])
def test_decode_candidates_are_the_goldens(visible: int, arithmetic: Arithmetic, ops: Golden) -> None:
    scores = ops["candidates.decode_logits"][0][:, :visible]
    found = candidate_positions(scores, torch.tensor([visible]), 8, 2, arithmetic)
    assert torch.equal(found, ops[f"candidates.decode_len{visible}_k2_b8"][0])


class _OneRoundedUp(Wide):
    """Wide, but for the one exponential that the golden rounded up."""

    def exp(self, x: Tensor) -> Tensor:
        y = super().exp(x)
        if x.shape == (12, 4, 4):
            y[ROUNDED_UP] = torch.nextafter(y[ROUNDED_UP], torch.tensor(torch.inf))
        return y


def _sinkhorn(ops: Golden, arithmetic: Arithmetic) -> Mix:
    return split_mix(ops["sinkhorn.mixes"][0], ops["sinkhorn.scale"], ops["sinkhorn.base"], 4, 20, 1e-6, arithmetic)


def _odd_ones(found: Tensor, expected: Tensor) -> list[list[int]]:
    """Where two tensors differ; by two ulps and no more, a neighbouring exponential's share in 1/(1 + e^-x)."""
    assert int(_ulps(found, expected).max()) <= 2
    places: list[list[int]] = found.ne(expected).nonzero().tolist()
    return places


def test_wide_mixes_differ_where_the_golden_rounded_an_exponential_the_other_way(ops: Golden) -> None:
    found = _sinkhorn(ops, Wide())
    assert _odd_ones(found.pre, ops["sinkhorn.pre"][0]) == [[2, 3]]
    assert _odd_ones(found.post, ops["sinkhorn.post"][0]) == [[3, 1], [6, 1]]
    assert {token for token, *_ in _odd_ones(found.comb, ops["sinkhorn.comb"][0])} == {ROUNDED_UP[0]}


def test_wide_sinkhorn_is_exact_but_for_one_exponential(ops: Golden) -> None:
    assert _same_bytes(_sinkhorn(ops, _OneRoundedUp()).comb, ops["sinkhorn.comb"][0])


def test_that_exponential_is_correctly_rounded_here(ops: Golden) -> None:
    mixes, scale, base = (ops[f"sinkhorn.{part}"] for part in ("mixes", "scale", "base"))
    logits = (mixes[0][:, 8:] * scale[2] + base[8:]).unflatten(1, (4, 4))
    x = (logits - logits.amax(-1, keepdim=True))[ROUNDED_UP]
    y = Wide().exp(x[None])[0]
    ulp = float(torch.nextafter(y, torch.tensor(torch.inf)) - y)
    assert 0.49 < (exp(float(x)) - float(y)) / ulp < 0.5


def _rotation(size: str, table: str, positions: Tensor, arithmetic: Arithmetic) -> tuple[Tensor, Rotation]:
    dims, yarn = YARNS[size]
    frequencies = (
        rope_frequencies(160000.0, dims, yarn) if table == "compressed" else rope_frequencies(10000.0, dims, None)
    )
    return frequencies, rotation_at(positions.long(), frequencies, arithmetic)


@both
@pytest.mark.parametrize("table", ["compressed", "window"])
@pytest.mark.parametrize("size", ["mini", "release"])
def test_rope_tables_are_within_an_ulp(size: str, table: str, arithmetic: Arithmetic, rope: Golden) -> None:
    name = f"{size}.{table}"
    frequencies, rotation = _rotation(size, table, rope[f"{name}.positions"], arithmetic)
    assert _same_bytes(frequencies, rope[f"{name}.inv_freq"])
    assert int(_ulps(rotation.cos, rope[f"{name}.cos"]).max()) <= 1
    assert int(_ulps(rotation.sin, rope[f"{name}.sin"]).max()) <= 1


@both
def test_rope_applications_are_exact(arithmetic: Arithmetic, rope: Golden) -> None:
    start, x = int(rope["apply.start_pos"]), rope["apply.x"][0]
    _, rotation = _rotation("mini", "compressed", torch.arange(start, start + x.shape[0]), arithmetic)
    assert _same_bytes(rotate(x, rotation), rope["apply.out"][0])
    inverse = rotate(rope["apply.out"][0], rotation.inverse())
    assert _same_bytes(inverse, rope["apply.inverse_of_out"][0])


@pytest.mark.parametrize("name", ["prefill_001", "prefill_002", "prefill_003", "prefill_033", "prefill_401"])
def test_hash_ids_are_the_goldens(name: str, wide: Backbone, golden: Callable[[str], Golden]) -> None:
    expected = golden(name)
    sequence = wide.new_cache()
    batch = Batch.build([expected["input_ids"].tolist()], [sequence])
    for layer, rows in zip((1, 4), wide._engram_rows(batch, (sequence,)), strict=True):
        assert torch.equal(rows.int(), expected[f"L{layer}.engram.hash_ids"])
