"""Dense weights are read as they are stored, and refused where they hold NaN."""

import struct
from typing import Any

import pytest
import torch

from shoal.checkpoint.shards import Checkpoint
from shoal.errors import TensorError
from shoal.weights.reader import WeightReader, mapped_float4, refuse_nan_scales

MATRIX = "layers.0.attn.wkv"


def test_a_matrix_keeps_its_bytes(miniature: Checkpoint) -> None:
    weight = WeightReader(miniature).float8(MATRIX)
    assert weight.codes.numpy().tobytes() == miniature.read_bytes(f"{MATRIX}.weight")
    assert weight.scales.numpy().tobytes() == miniature.read_bytes(f"{MATRIX}.scale")
    assert weight.nbytes == miniature.nbytes(f"{MATRIX}.weight") + miniature.nbytes(f"{MATRIX}.scale")


def test_what_was_read_is_counted_and_reported(miniature: Checkpoint) -> None:
    told: list[int] = []
    reader = WeightReader(miniature, told.append)
    reader.float8(MATRIX)
    reader.tensor("norm.weight")
    assert list(reader.read) == [f"{MATRIX}.weight", f"{MATRIX}.scale", "norm.weight"]
    assert list(reader.read.values()) == told == [miniature.nbytes(name) for name in reader.read]


@pytest.mark.parametrize(
    ("name", "offset", "value", "message"),
    [
        (f"{MATRIX}.weight", 7, b"\x7f", f"`{MATRIX}.weight` holds a NaN code"),
        (f"{MATRIX}.weight", 7, b"\xff", f"`{MATRIX}.weight` holds a NaN code"),
        (f"{MATRIX}.scale", 6, b"\xff", rf"`{MATRIX}.scale` is NaN \(code 255\) at \[1, 1\]"),
    ],
)
def test_a_nan_code_or_scale_is_named(spoiled: Any, name: str, offset: int, value: bytes, message: str) -> None:
    spoiled.poke(name, offset, value)
    with Checkpoint.open(spoiled.directory) as checkpoint:
        with pytest.raises(TensorError, match=message) as caught:
            WeightReader(checkpoint).float8(MATRIX)
        assert spoiled.shards[name] in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_float32_that_is_not_finite_is_named(spoiled: Any, value: float) -> None:
    spoiled.poke("layers.2.hc_attn_base", 4, struct.pack("<f", value))
    with Checkpoint.open(spoiled.directory) as checkpoint:
        problem = pytest.raises(TensorError, match=r"`layers\.2\.hc_attn_base` holds a value that is not finite")
        with problem:
            WeightReader(checkpoint).tensor("layers.2.hc_attn_base")


def test_a_mapped_expert_matrix_keeps_its_bytes(miniature: Checkpoint) -> None:
    name = "layers.9.ffn.experts.15.w2"
    weight = mapped_float4(miniature, name)
    assert weight.codes.numpy().tobytes() == miniature.read_bytes(f"{name}.weight")
    assert weight.scales.numpy().tobytes() == miniature.read_bytes(f"{name}.scale")


def test_the_largest_scale_that_is_a_number_passes() -> None:
    refuse_nan_scales(torch.tensor([[0, 254]], dtype=torch.uint8), "x", "y")
    refuse_nan_scales(torch.zeros((0, 3), dtype=torch.uint8), "x", "y")
