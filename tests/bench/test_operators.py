"""A mixture composed of operators is the model's own."""

import torch

from shoal.bench.operators import LIMIT, Routing, SharedExpert, run_step
from shoal.bench.workbench import Workbench
from shoal.ops.expert import apply_expert
from shoal.ops.wide import Wide

TOKENS, ACTIVE = 5, 3


def picks() -> torch.Tensor:
    return torch.stack([torch.randperm(8, generator=torch.Generator().manual_seed(i))[:ACTIVE] for i in range(TOKENS)])


def test_rows_are_grouped_by_expert_and_come_back_in_ascending_id(bench: Workbench) -> None:
    routing = Routing.draw(bench.region, picks(), bench.generator)
    assert sum(routing.counts) == TOKENS * ACTIVE
    assert sorted(routing.slots.tolist()) == list(range(TOKENS * ACTIVE))
    ids = picks().unique().tolist()
    expert_of_slot = {}
    at = 0
    for expert, count in zip(ids, routing.counts, strict=True):
        for i in range(at, at + count):
            token = int(routing.row_ids[i])
            assert expert in picks()[token].tolist()
            assert int(routing.slots[i]) in routing.token_slots[token].tolist()
            expert_of_slot[int(routing.slots[i])] = expert
        at += count
    for token in range(TOKENS):
        assert [expert_of_slot[slot] for slot in routing.token_slots[token].tolist()] == sorted(picks()[token].tolist())


def test_the_step_that_is_timed_is_the_mixture(bench: Workbench) -> None:
    kernels, wide = bench.kernels(), Wide()
    dim, inter = bench.region.shape.dim, bench.region.shape.inter
    x = bench.quantized(TOKENS, dim)
    shared = SharedExpert(bench.float8(inter, dim), bench.float8(dim, inter), bench.float8(inter, dim))
    routing = Routing.draw(bench.region, picks(), bench.generator)
    total = torch.zeros((TOKENS, dim))
    at = 0
    for expert, count in zip(routing.experts, routing.counts, strict=True):
        rows = routing.row_ids[at : at + count].long()
        taken = type(x)(x.codes[rows], x.scales[rows], x.format)
        weights = routing.weights[at : at + count]
        total[rows] += apply_expert(taken, expert.w1, expert.w2, expert.w3, weights, LIMIT, wide).float()
        at += count
    assert torch.equal(run_step(kernels, x, routing, None), total.to(torch.bfloat16))
    alone = apply_expert(x, shared.w1, shared.w2, shared.w3, None, LIMIT, wide).float()
    expected = (total + alone).float()
    found = run_step(kernels, x, routing, shared).float()
    assert torch.allclose(found, expected, rtol=2**-7, atol=2**-7 * float(expected.abs().max()))
