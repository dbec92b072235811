"""The pairs of a step, sorted by expert."""

from typing import Any

import pytest
import torch

from shoal.ops.mixture import Dispatch
from shoal.ops.routing import Routes


def drawn(tokens: int, active: int, seed: int) -> Routes:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.stack([torch.randperm(12, generator=generator)[:active] for _ in range(tokens)])
    return Routes(ids, torch.rand((tokens, active), generator=generator), torch.zeros(tokens))


@pytest.mark.parametrize("tokens", [1, 2, 5])
@pytest.mark.parametrize("active", [1, 2, 6])
@pytest.mark.parametrize("seed", range(4))
def test_every_pair_is_once_with_its_expert_and_its_token_finds_it(tokens: int, active: int, seed: int) -> None:
    routes = drawn(tokens, active, seed)
    dispatch = Dispatch.of(routes)
    assert list(dispatch.expert_ids) == sorted(set(routes.expert_ids.flatten().tolist()))
    assert dispatch.bounds[0] == 0 and dispatch.bounds[-1] == tokens * active
    found = dict[tuple[int, int], Any]()
    for place, expert_id in enumerate(dispatch.expert_ids):
        rows = range(dispatch.bounds[place], dispatch.bounds[place + 1])
        assert [int(dispatch.tokens[row]) for row in rows] == sorted(int(dispatch.tokens[row]) for row in rows)
        found |= {(int(dispatch.tokens[row]), expert_id): (row, float(dispatch.weights[row])) for row in rows}
    for token in range(tokens):
        ascending = routes.expert_ids[token].argsort()
        for slot, choice in zip(dispatch.slots[token].tolist(), ascending.tolist(), strict=True):
            expert_id = int(routes.expert_ids[token, choice])
            assert found.pop((token, expert_id)) == (slot, float(routes.weights[token, choice]))
    assert not found
    assert (dispatch.tokens.dtype, dispatch.slots.dtype) == (torch.int64, torch.int64)
    assert dispatch.slots.shape == (tokens, active) and dispatch.weights.dtype == torch.float32
