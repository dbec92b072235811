"""A stage gives the bits of the operators it is made of: in every build, on one thread and two, for any rows."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from shoal.formats.float8 import E4M3_NAN
from shoal.ops.attention_projections import (
    InputProjections,
    OutputProjections,
    project_in,
    project_in_torch,
    project_out,
    project_out_torch,
)
from shoal.ops.engram_memory import EngramWeights, apply_memory, apply_memory_torch
from shoal.ops.hyper_connections import Mix
from shoal.ops.index_queries import IndexerWeights, index_queries, index_queries_torch
from shoal.ops.kernels import available_isas
from shoal.ops.latents import LatentWeights, finish_latents, finish_latents_torch
from shoal.ops.logits import logits_of, logits_of_torch
from shoal.ops.mixture import Dispatch, ExpertWeights, apply_routed, combine, combine_torch
from shoal.ops.native import Native
from shoal.ops.quantize import Q8, Quantized, quantize_q8_torch
from shoal.ops.rotation import Rotation
from shoal.ops.routing import Router, Routes
from shoal.ops.sublayer import (
    EntryOptions,
    EntryWeights,
    enter_mixture,
    enter_mixture_torch,
    enter_sublayer,
    enter_sublayer_torch,
)
from shoal.ops.weights import Float4Weight, Float8Weight

STREAMS, DIM, EPS = 4, 160, 1e-20
OPTIONS = EntryOptions(20, 1e-6, EPS)


class Drawer:
    """Random operands from a seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def floats(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    def bf16(self, *shape: int) -> Tensor:
        return self.floats(*shape).to(torch.bfloat16)

    def codes(self, *shape: int) -> Tensor:
        return torch.randint(0, 256, shape, generator=self.generator, dtype=torch.uint8)

    def scales(self, *shape: int) -> Tensor:
        return torch.randint(118, 124, shape, generator=self.generator, dtype=torch.uint8)

    def float8(self, outputs: int, inputs: int) -> Float8Weight:
        codes = self.codes(outputs, inputs)
        codes = torch.where((codes & E4M3_NAN) == E4M3_NAN, 0, codes).to(torch.uint8)
        return Float8Weight(codes, self.scales(-(-outputs // 32), inputs // 32))

    def float4(self, outputs: int, inputs: int) -> Float4Weight:
        return Float4Weight(self.codes(outputs, inputs // 2), self.scales(outputs, inputs // 32))

    def q8(self, *shape: int) -> Quantized:
        return quantize_q8_torch(self.bf16(*shape))

    def mix(self, rows: int) -> Mix:
        return Mix(*(self.floats(rows, *shape).abs() for shape in ((STREAMS,), (STREAMS,), (STREAMS, STREAMS))))

    def rotation(self, rows: int, pairs: int) -> Rotation:
        angle = self.floats(rows, pairs)
        return Rotation(angle.cos(), angle.sin())

    def entry(self) -> EntryWeights:
        count = STREAMS * (STREAMS + 2)
        return EntryWeights(
            self.floats(count, STREAMS * DIM) / 16, self.floats(count), self.floats(3).abs(), self.bf16(DIM)
        )


Operator = Callable[..., Any]
Case = tuple[Operator, Operator, tuple[Any, ...]]


def entering(d: Drawer, rows: int) -> Case:
    return (
        enter_sublayer,
        enter_sublayer_torch,
        (d.bf16(rows, STREAMS, DIM), d.floats(rows, STREAMS), d.entry(), OPTIONS),
    )


def entering_a_mixture(d: Drawer, rows: int) -> Case:
    router = Router(d.bf16(24, DIM), d.floats(24), d.floats(24), 5, 1.5)
    mask = torch.arange(rows) % 3 == 0
    operands = d.bf16(rows, STREAMS, DIM), d.floats(rows, STREAMS), d.entry(), router, mask, OPTIONS
    return enter_mixture, enter_mixture_torch, operands


def projecting_in(d: Drawer, rows: int) -> Case:
    weights = InputProjections(d.float8(96, DIM), d.bf16(96), d.float8(3 * 64, 96), d.float8(64, DIM), d.bf16(64))
    return project_in, project_in_torch, (d.q8(rows, DIM), weights, d.rotation(rows, 16), EPS)


def projecting_out(d: Drawer, rows: int) -> Case:
    weights = OutputProjections(d.float8(2 * 32, 96), d.float8(DIM, 64), 2)
    operands = d.bf16(rows, 3, 64), weights, d.bf16(rows, STREAMS, DIM), d.mix(rows)
    return project_out, project_out_torch, operands


def finishing(d: Drawer, rows: int) -> Case:
    weights = LatentWeights(d.bf16(64), d.bf16(32, 64), d.bf16(32))
    return finish_latents, finish_latents_torch, (d.bf16(rows, 64), weights, d.rotation(rows, 8), EPS)


def querying(d: Drawer, rows: int) -> Case:
    weights = IndexerWeights(d.float8(4 * 64, 96), d.bf16(4, DIM))
    return index_queries, index_queries_torch, (d.q8(rows, 96), d.bf16(rows, DIM), weights, d.rotation(rows, 16), 0.03)


def remembering(d: Drawer, rows: int) -> Case:
    weights = EngramWeights(d.float8((STREAMS + 1) * DIM, 6 * 64), d.bf16(STREAMS, DIM), d.bf16(STREAMS, DIM))
    table = Quantized(d.float8(6 * rows, 64).codes, d.scales(6 * rows, 2), Q8)
    return apply_memory, apply_memory_torch, (table, d.bf16(rows, STREAMS, DIM), weights, torch.arange(rows) == 1, EPS)


def ending(d: Drawer, rows: int) -> Case:
    operands = d.bf16(rows, STREAMS, DIM), d.floats(rows, STREAMS), d.bf16(DIM), d.bf16(77, DIM), EPS
    return logits_of, logits_of_torch, operands


CASES = [entering, entering_a_mixture, projecting_in, projecting_out, finishing, querying, remembering, ending]


def tensors(found: Any) -> list[Tensor]:
    """All tensors of a result, wherever they are."""
    if isinstance(found, Tensor):
        return [found]
    if isinstance(found, tuple):
        return [tensor for part in found for tensor in tensors(part)]
    if is_dataclass(found):
        return [tensor for field in fields(found) for tensor in tensors(getattr(found, field.name))]
    return []


def same(found: Any, wanted: Any) -> bool:
    pairs = list(zip(tensors(found), tensors(wanted), strict=True))
    return bool(pairs) and all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)


@pytest.fixture(params=[(isa, threads) for isa in available_isas() for threads in (1, 2)], ids=str)
def native(request: pytest.FixtureRequest) -> Native:
    return Native(*request.param)


@pytest.mark.parametrize("rows", [1, 2, 5, 19])
@pytest.mark.parametrize("case", CASES)
def test_a_stage_is_its_operators(case: Callable[[Drawer, int], Case], rows: int, native: Native) -> None:
    stage, operators, operands = case(Drawer(rows), rows)
    calls = native.native.native.calls
    found = stage(*operands, native)
    assert native.native.native.calls == calls + 1
    assert same(found, operators(*operands, native))


@pytest.mark.parametrize("case", CASES)
def test_a_row_has_the_same_bits_alone(case: Callable[[Drawer, int], Case], native: Native) -> None:
    stage, _, operands = case(Drawer(7), 9)
    whole = tensors(stage(*operands, native))
    per_row = 6 if case is remembering else 1
    alone = [
        operand[per_row * 4 : per_row * 5]
        if isinstance(operand, Quantized | Tensor | Rotation) and (case is not ending or index < 2)
        else Mix(operand.pre[4:5], operand.post[4:5], operand.comb[4:5])
        if isinstance(operand, Mix)
        else operand
        for index, operand in enumerate(operands)
    ]
    if case is remembering:
        alone[1], alone[3] = operands[1][4:5], operands[3][4:5]
    assert same(tuple(tensors(stage(*alone, native))), tuple(tensor[4:5] for tensor in whole))


def mixture(d: Drawer, rows: int) -> tuple[tuple[Any, ...], list[tuple[int, ExpertWeights]]]:
    """Operands of `combine` but the experts that are missing, and all experts."""
    ids = torch.stack([torch.randperm(9, generator=d.generator)[:3] for _ in range(rows)])
    routes = Routes(ids, d.floats(rows, 3).abs(), d.floats(rows))
    experts = [(i, ExpertWeights(d.float4(64, DIM), d.float4(DIM, 64), d.float4(64, DIM))) for i in range(9)]
    dispatch = Dispatch.of(routes)
    shared = ExpertWeights(d.float8(64, DIM), d.float8(DIM, 64), d.float8(64, DIM))
    present = [expert for expert in experts if expert[0] in dispatch.expert_ids]
    return (d.q8(rows, DIM), dispatch, shared, d.bf16(rows, STREAMS, DIM), d.mix(rows)), present


@pytest.mark.parametrize("rows", [1, 2, 5, 40])
def test_a_mixture_is_its_operators_in_whatever_groups_its_experts_come(rows: int, native: Native) -> None:
    (x, dispatch, shared, streams, mix), experts = mixture(Drawer(rows), rows)
    results = []
    for first in (0, 1, len(experts) // 2, len(experts)):
        outputs = torch.full((dispatch.tokens.numel(), DIM), torch.nan, dtype=torch.bfloat16)
        # Late ones first: order is the dispatch's.
        late_first = experts[::-1]
        apply_routed(x, dispatch, late_first[:first], 7.0, outputs, native)
        results.append(combine(x, dispatch, late_first[first:], outputs, shared, 7.0, streams, mix, native))
    outputs = torch.full((dispatch.tokens.numel(), DIM), torch.nan, dtype=torch.bfloat16)
    wanted = combine_torch(x, dispatch, experts, outputs, shared, 7.0, streams, mix, native)
    assert all(same(found, wanted) for found in results)
