"""A group's tokens become one latent (spec §4.4)."""

import torch

from shoal.ops.pooling import pool_groups
from shoal.ops.wide import Wide

W = Wide()


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_it_is_a_softmax_weighted_sum_per_channel() -> None:
    values, gates = random(7, 2, 16, seed=1), random(7, 2, 16, seed=2) * 3
    wanted = (values.double() * gates.double().softmax(1)).sum(1)
    found = pool_groups(values, gates, W).double()
    torch.testing.assert_close(found, wanted, rtol=2**-8, atol=2**-20)


def test_a_much_larger_gate_takes_all() -> None:
    values = random(1, 2, 4, seed=3)
    gates = torch.tensor([[[300.0, -300.0, 0.0, 0.0], [0.0, 0.0, 300.0, -300.0]]])
    wanted = torch.stack((values[0, 0, 0], values[0, 1, 1], values[0, 1, 2], values[0, 0, 3]))
    assert torch.equal(pool_groups(values, gates, W)[0], wanted.to(torch.bfloat16))


def test_a_group_of_one_is_its_token() -> None:
    values = random(3, 1, 8, seed=4)
    assert torch.equal(pool_groups(values, random(3, 1, 8, seed=5), W), values[:, 0].to(torch.bfloat16))


def test_no_groups_give_no_latents() -> None:
    assert pool_groups(torch.zeros(0, 2, 8), torch.zeros(0, 2, 8), W).shape == (0, 8)


def test_a_group_has_the_same_bits_in_any_batch() -> None:
    values, gates = random(9, 2, 40, seed=6), random(9, 2, 40, seed=7)
    assert torch.equal(pool_groups(values[4:5], gates[4:5], W), pool_groups(values, gates, W)[4:5])
