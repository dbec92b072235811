"""Rotary tables and rotations (spec §4.3)."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shoal.ops.kernels import Kernels, available_isas
from shoal.ops.rope import Yarn, rope_frequencies, rotate, rotation_at
from shoal.ops.rotation import Rotation
from shoal.ops.wide import Wide

YARN = Yarn(16.0, 65536, 32.0, 1.0)
W = Wide()


def test_the_released_yarn_frequencies_are_the_published_ones() -> None:
    f = rope_frequencies(160000.0, 64, YARN).tolist()
    published = {
        0: 1.0, 1: 0.687656022, 2: 0.472870805, 3: 0.325172456, 15: 0.00363553858, 16: 0.002265625,
        20: 2.96977778e-4, 24: 1.953125e-5, 25: 5.37231267e-6, 31: 5.68052904e-7,
    }  # fmt: skip
    for pair, value in published.items():
        assert f[pair] == pytest.approx(value, rel=1e-6), pair


def test_without_yarn_a_frequency_is_a_power_of_the_base() -> None:
    found = rope_frequencies(10000.0, 64, None).double()
    wanted = torch.tensor([10000.0 ** (-2 * i / 64) for i in range(32)], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)


def test_an_original_length_of_zero_turns_yarn_off() -> None:
    off = rope_frequencies(160000.0, 64, Yarn(16.0, 0, 32.0, 1.0))
    assert torch.equal(off, rope_frequencies(160000.0, 64, None))


def test_fast_pairs_are_kept_and_slow_ones_stretched() -> None:
    plain, yarn = rope_frequencies(160000.0, 64, None), rope_frequencies(160000.0, 64, YARN)
    assert torch.equal(yarn[:16], plain[:16])
    assert torch.equal(yarn[25:], plain[25:] / 16)


@given(st.integers(0, 2**20 - 1))
def test_the_angle_is_a_float32_product(position: int) -> None:
    frequencies = rope_frequencies(160000.0, 64, YARN)
    rotation = rotation_at(torch.tensor([position]), frequencies, W)
    angles = (torch.tensor(float(position)) * frequencies).double()
    torch.testing.assert_close(rotation.cos[0].double(), angles.cos(), rtol=0, atol=2**-24)
    torch.testing.assert_close(rotation.sin[0].double(), angles.sin(), rtol=0, atol=2**-24)


def test_position_zero_turns_nothing() -> None:
    x = torch.randn(1, 3, 64).to(torch.bfloat16)
    assert torch.equal(rotate(x, rotation_at(torch.tensor([0]), rope_frequencies(10000.0, 32, None), W)), x)


def test_pairs_are_interleaved_and_only_the_last_dims_turn() -> None:
    x = torch.arange(1, 9).float().to(torch.bfloat16)[None]
    frequencies = torch.tensor([math.pi / 2, 0.0])
    turned = rotate(x, rotation_at(torch.tensor([1]), frequencies, W))
    torch.testing.assert_close(turned, torch.tensor([[1.0, 2, 3, 4, -6, 5, 7, 8]]).to(torch.bfloat16))


def test_a_rotation_is_undone_by_its_inverse_within_two_roundings() -> None:
    x = torch.randn(20, 4, 64, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    rotation = rotation_at(torch.arange(20) * 5003, rope_frequencies(160000.0, 32, YARN), W)
    back = rotate(rotate(x, rotation), rotation.inverse())
    # Each rounding moves a pair by at most 2^-8 of its larger member, 2^-7 of its length in all.
    pairs = x.float().unflatten(-1, (-1, 2)).norm(dim=-1, keepdim=True)
    moved = (back.float() - x.float()).unflatten(-1, (-1, 2)).abs()
    assert bool((moved <= pairs * 2**-7).all())


def test_heads_of_a_token_share_its_rotation() -> None:
    x = torch.randn(5, 3, 64, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    rotation = rotation_at(torch.arange(5), rope_frequencies(10000.0, 32, None), W)
    assert torch.equal(rotate(x, rotation)[:, 1], rotate(x[:, 1], rotation))


@pytest.fixture(
    params=[(isa, threads) for isa in available_isas() for threads in (1, 2)], ids=lambda p: f"{p[0]}-{p[1]}"
)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return Kernels(*request.param)


@pytest.mark.parametrize("shape", [(0, 3, 64), (1, 64), (5, 3, 64), (2, 7, 48), (3, 1, 130), (17, 4, 512)])
@pytest.mark.parametrize("pairs", [1, 8, 23, 24])
def test_every_kernel_turns_rows_as_its_twin_does(kernels: Kernels, shape: tuple[int, ...], pairs: int) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    rotation = rotation_at(torch.arange(shape[0]) * 5003, rope_frequencies(160000.0, 2 * pairs, None), W)
    assert torch.equal(kernels.rotate_rows(x, rotation), rotate(x, rotation))
    assert torch.equal(kernels.rotate_rows(x, rotation, inverse=True), rotate(x, rotation.inverse()))


@pytest.mark.parametrize("yarn", [None, YARN])
def test_every_kernel_computes_the_table_of_its_twin(kernels: Kernels, yarn: Yarn | None) -> None:
    positions = torch.cat((torch.arange(300), torch.arange(2**20 - 50, 2**20), torch.tensor([65535, 65536, 2**20 + 1])))
    frequencies = rope_frequencies(160000.0, 64, yarn)
    found, wanted = Rotation(*kernels.rope_table(positions, frequencies)), rotation_at(positions, frequencies, W)
    assert torch.equal(found.cos, wanted.cos) and torch.equal(found.sin, wanted.sin)
    assert kernels.rope_table(positions[:0], frequencies)[0].shape == (0, 32)
