"""The router's choice and weights (spec §4.6)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from shoal.ops.routing import Router, Routes, route
from shoal.ops.wide import Wide

EXPERTS, ACTIVE, SCALE = 12, 3, 1.5


def routes_of(x: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None = None) -> Routes:
    return route(x, Router(weight, bias, -bias, ACTIVE, SCALE), mask, Wide())


def scores(x: Tensor, weight: Tensor) -> Tensor:
    return torch.nn.functional.softplus(x.double() @ weight.double().T).sqrt()


def inputs(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(7, 32, generator=generator).to(torch.bfloat16)
    weight = torch.randn(EXPERTS, 32, generator=generator).to(torch.bfloat16)
    return x, weight, torch.randn(EXPERTS, generator=generator)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_the_largest_biased_scores_are_chosen(seed: int) -> None:
    x, weight, bias = inputs(seed)
    wanted = (scores(x, weight) + bias).topk(ACTIVE).indices
    assert torch.equal(routes_of(x, weight, bias).expert_ids, wanted)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_weights_come_from_the_unbiased_scores_and_sum_to_the_scale(seed: int) -> None:
    x, weight, bias = inputs(seed)
    routes = routes_of(x, weight, bias)
    chosen = scores(x, weight).gather(1, routes.expert_ids)
    wanted = chosen / chosen.sum(-1, keepdim=True) * SCALE
    # Score, sum, quotient and product: a few float32 roundings.
    torch.testing.assert_close(routes.weights.double(), wanted, rtol=2**-20, atol=0)


def test_image_rows_choose_with_their_own_bias() -> None:
    x, weight, bias = inputs(1)
    mask = torch.tensor([True, False] * 3 + [True])
    masked, text, image = (routes_of(x, weight, bias, m) for m in (mask, None, torch.ones(7, dtype=torch.bool)))
    assert torch.equal(masked.expert_ids, torch.where(mask[:, None], image.expert_ids, text.expert_ids))
    assert not torch.equal(text.expert_ids, image.expert_ids)


def test_equal_scores_go_to_the_lower_expert() -> None:
    zeros = torch.zeros(2, 32, dtype=torch.bfloat16)
    routes = routes_of(zeros, torch.zeros(EXPERTS, 32, dtype=torch.bfloat16), torch.zeros(EXPERTS))
    assert routes.expert_ids.tolist() == [[0, 1, 2]] * 2
    assert routes.margin.tolist() == [0.0, 0.0]
    torch.testing.assert_close(routes.weights, torch.full((2, 3), 0.5), rtol=2**-22, atol=0)


def test_the_margin_is_from_the_last_chosen_to_the_first_not() -> None:
    x, weight, bias = inputs(2)
    ordered = (scores(x, weight) + bias).sort(descending=True).values
    margin = (ordered[:, ACTIVE - 1] - ordered[:, ACTIVE]).float()
    torch.testing.assert_close(routes_of(x, weight, bias).margin, margin, rtol=0, atol=2**-20)


def test_a_hopeless_token_still_gets_finite_weights() -> None:
    x = torch.full((1, 32), -100.0, dtype=torch.bfloat16)
    routes = routes_of(x, torch.ones(EXPERTS, 32, dtype=torch.bfloat16), torch.zeros(EXPERTS))
    assert routes.weights.isfinite().all() and routes.weights.sum() == pytest.approx(0.0)
    assert not math.isnan(routes.margin.item())
