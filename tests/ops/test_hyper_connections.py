"""Mixes and what is done with them (spec §4.1, §9)."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.ops.hyper_connections import Mix, collapse, expand, mix_coefficients, ordered_sum, split_mix
from shoal.ops.wide import Wide

W = Wide()


def published() -> Mix:
    """The mix of spec §9's vector."""
    u = torch.tensor([[((7 * i) % 11 - 5) / 4 for i in range(24)]])
    base = torch.tensor([((5 * i) % 7 - 3) / 10 for i in range(24)])
    return split_mix(u, torch.tensor([0.5, 1.0, 2.0]), base, 4, 20, 1e-6, W)


def random_mix(seed: int, tokens: int) -> Mix:
    u = torch.randn(tokens, 24, generator=torch.Generator().manual_seed(seed)) * 2
    return split_mix(u, torch.tensor([1.0, 1.0, 1.0]), torch.zeros(24), 4, 20, 1e-6, W)


def streams_and_output(seed: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    streams = torch.randn(tokens, 4, 16, generator=generator).to(torch.bfloat16)
    return streams, torch.randn(tokens, 16, generator=generator).to(torch.bfloat16)


def test_the_published_mix_is_met() -> None:
    mix = published()
    pre, post = [0.283941, 0.610640, 0.437824, 0.604680], [1.268271, 0.685979, 1.421899, 0.851115]
    comb = [
        [0.127185, 0.539923, 0.205704, 0.127187],
        [0.275123, 0.004773, 0.444980, 0.275122],
        [0.105240, 0.446759, 0.342759, 0.105241],
        [0.492451, 0.008544, 0.006555, 0.492449],
    ]
    # Published to six digits.
    assert mix.pre[0].tolist() == pytest.approx(pre, abs=6e-7)
    assert mix.post[0].tolist() == pytest.approx(post, abs=6e-7)
    for found, wanted in zip(mix.comb[0].tolist(), comb, strict=True):
        assert found == pytest.approx(wanted, abs=6e-7)


def test_rows_and_columns_of_the_published_comb_sum_to_nearly_one() -> None:
    comb = published().comb[0]
    assert comb.sum(0).tolist() == pytest.approx([0.999999] * 4, abs=6e-7)
    assert comb.sum(1).tolist() == pytest.approx([0.999999] * 4, abs=6e-7)


def test_it_ends_on_the_columns() -> None:
    # Few iterations: only what was normalised last sums to one.
    u = torch.randn(6, 24, generator=torch.Generator().manual_seed(1)) * 4
    comb = split_mix(u, torch.ones(3), torch.zeros(24), 4, 2, 1e-6, W).comb
    torch.testing.assert_close(comb.sum(1), torch.ones(6, 4), rtol=0, atol=1e-4)
    assert (comb.sum(2) - 1).abs().max() > 1e-2


def test_pre_has_an_epsilon_and_post_has_none() -> None:
    u = torch.full((1, 24), -200.0)
    mix = split_mix(u, torch.ones(3), torch.zeros(24), 4, 20, 1e-6, W)
    assert mix.pre.tolist() == [[torch.tensor(1e-6).item()] * 4]
    assert mix.post.tolist() == [[0.0] * 4]


@settings(max_examples=25)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=6))
def test_an_ordered_sum_goes_from_the_left_in_float32(values: list[float]) -> None:
    total = torch.tensor(values[0])
    for value in values[1:]:
        total = total + torch.tensor(value)
    assert ordered_sum(torch.tensor([values]), 1).item() == total.item()


def test_a_collapse_weighs_the_streams() -> None:
    streams, _ = streams_and_output(1, 3)
    one_hot = torch.zeros(3, 4)
    one_hot[:, 2] = 1.0
    assert torch.equal(collapse(streams, one_hot), streams[:, 2])
    mean = collapse(streams, torch.full((3, 4), 0.25)).double()
    torch.testing.assert_close(mean, streams.double().mean(1), rtol=2**-8, atol=2**-20)


def test_comb_leads_from_its_first_index_to_its_second() -> None:
    streams, x = streams_and_output(2, 1)
    comb = torch.zeros(1, 4, 4)
    comb[0, 3, 1] = 1.0  # stream 3 feeds stream 1
    expanded = expand(x, streams, Mix(torch.zeros(1, 4), torch.zeros(1, 4), comb), W)
    assert torch.equal(expanded[:, 1], streams[:, 3]) and not expanded[:, [0, 2, 3]].any()


def test_post_hands_the_output_to_the_streams() -> None:
    streams, x = streams_and_output(3, 2)
    post = torch.tensor([[0.0, 1.0, 2.0, 0.5]]).repeat(2, 1)
    expanded = expand(x, streams, Mix(post, post, torch.zeros(2, 4, 4)), W)
    assert torch.equal(expanded, (post[..., None] * x[:, None].float()).to(torch.bfloat16))


def test_an_expansion_is_the_equation_to_a_rounding() -> None:
    streams, x = streams_and_output(4, 5)
    mix = random_mix(4, 5)
    wanted = mix.post[..., None].double() * x[:, None].double()
    wanted = wanted + torch.einsum("tjc,tjd->tcd", mix.comb.double(), streams.double())
    torch.testing.assert_close(expand(x, streams, mix, W).double(), wanted, rtol=2**-8, atol=2**-20)


def test_the_coefficients_are_projected_then_normalised() -> None:
    streams, _ = streams_and_output(5, 2)
    weight = torch.randn(24, 64, generator=torch.Generator().manual_seed(5))
    z = [[Fraction(v) for v in row] for row in streams.flatten(1).tolist()]
    found = mix_coefficients(streams, weight, 1e-20, W)
    for token in range(2):
        mean = float(sum(v * v for v in z[token]) / 64)
        for i in range(24):
            dot = float(sum(Fraction(w) * v for w, v in zip(weight[i].tolist(), z[token], strict=True)))
            assert found[token, i].item() == pytest.approx(dot / mean**0.5, rel=2**-21)


def test_a_token_has_the_same_mix_in_any_batch() -> None:
    whole = random_mix(6, 9)
    u = torch.randn(9, 24, generator=torch.Generator().manual_seed(6)) * 2
    alone = split_mix(u[4:5], torch.tensor([1.0, 1.0, 1.0]), torch.zeros(24), 4, 20, 1e-6, W)
    assert torch.equal(alone.comb, whole.comb[4:5]) and torch.equal(alone.pre, whole.pre[4:5])
