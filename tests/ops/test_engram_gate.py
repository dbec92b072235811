"""Engram's gate (spec §6.3)."""

import torch
from torch import Tensor

from shoal.ops.engram_gate import gate_streams
from shoal.ops.wide import Wide

W = Wide()
TOKENS, STREAMS, DIM = 5, 4, 32


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = ((TOKENS, STREAMS, DIM), (TOKENS, STREAMS, DIM), (TOKENS, DIM), (STREAMS, DIM), (STREAMS, DIM))
    h, key, value, q, k = (torch.randn(*shape, generator=generator).to(torch.bfloat16) for shape in shapes)
    return h, key, value, q, k


def equation(h: Tensor, key: Tensor, value: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Spec §6.3 in float64."""
    h, key, value, q, k = (tensor.double() for tensor in (h, key, value, q, k))
    dot = (h * q * k * key).sum(-1) * DIM**-0.5
    dot = dot / (h.square().mean(-1) + 1e-20).sqrt() / (key.square().mean(-1) + 1e-20).sqrt()
    gate = torch.sigmoid(dot.abs().clamp_min(1e-6).sqrt().copysign(dot))
    return h + gate[..., None] * value[:, None]


def test_it_is_the_equation_to_a_rounding() -> None:
    found = gate_streams(*inputs(), None, 1e-20, W).double()
    torch.testing.assert_close(found, equation(*inputs()), rtol=2**-8, atol=2**-20)


def test_an_image_row_takes_nothing() -> None:
    mask = torch.tensor([False, True, False, True, False])
    found, text = gate_streams(*inputs(), mask, 1e-20, W), gate_streams(*inputs(), None, 1e-20, W)
    assert torch.equal(found[mask], inputs()[0][mask])
    assert torch.equal(found[~mask], text[~mask])


def test_a_zero_key_still_opens_the_gate_by_half() -> None:
    h, key, value, q, k = inputs()
    found = gate_streams(h, torch.zeros_like(key), value, q, k, None, 1e-20, W).double()
    # sigmoid of the square root of the smallest dot, 1e-3
    gate = torch.sigmoid(torch.tensor(1e-3, dtype=torch.float64))
    torch.testing.assert_close(found, h.double() + gate * value.double()[:, None], rtol=2**-8, atol=2**-20)


def test_the_two_weights_act_as_their_product() -> None:
    h, key, value, q, k = inputs()
    swapped = gate_streams(h, key, value, k, q, None, 1e-20, W)
    assert torch.equal(swapped, gate_streams(h, key, value, q, k, None, 1e-20, W))


def test_a_row_has_the_same_bits_alone() -> None:
    h, key, value, q, k = inputs()
    whole = gate_streams(h, key, value, q, k, None, 1e-20, W)
    alone = gate_streams(h[2:3], key[2:3], value[2:3], q, k, None, 1e-20, W)
    assert torch.equal(alone, whole[2:3])
