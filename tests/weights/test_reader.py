"""Dense weights are read as they are stored, and refused where they hold NaN."""

import gc
import struct
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from shoal.checkpoint.shards import Checkpoint
from shoal.errors import TensorError
from shoal.weights.reader import FLOAT32_INFINITY, WeightReader, any_has_all, mapped_float4, refuse_nan_scales

MATRIX = "layers.0.attn.wkv"


@pytest.mark.parametrize("through_page_cache", [False, True])
def test_a_matrix_keeps_its_bytes(miniature: Checkpoint, through_page_cache: bool) -> None:
    with WeightReader(miniature, through_page_cache=through_page_cache) as reader:
        weight = reader.float8(MATRIX)
    assert weight.codes.numpy().tobytes() == miniature.read_bytes(f"{MATRIX}.weight")
    assert weight.scales.numpy().tobytes() == miniature.read_bytes(f"{MATRIX}.scale")
    assert weight.nbytes == miniature.nbytes(f"{MATRIX}.weight") + miniature.nbytes(f"{MATRIX}.scale")


def test_what_was_read_is_counted_and_reported(miniature: Checkpoint) -> None:
    told: list[int] = []
    with WeightReader(miniature, told.append) as reader:
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
        with WeightReader(checkpoint) as reader, pytest.raises(TensorError, match=message) as caught:
            reader.float8(MATRIX)
        assert spoiled.shards[name] in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_float32_that_is_not_finite_is_named(spoiled: Any, value: float) -> None:
    spoiled.poke("layers.2.hc_attn_base", 4, struct.pack("<f", value))
    with Checkpoint.open(spoiled.directory) as checkpoint:
        problem = pytest.raises(TensorError, match=r"`layers\.2\.hc_attn_base` holds a value that is not finite")
        with WeightReader(checkpoint) as reader, problem:
            reader.tensor("layers.2.hc_attn_base")


DENSE = [MATRIX + ".weight", MATRIX + ".scale", "norm.weight", "embed.weight", "layers.2.hc_attn_base"]


def test_what_is_expected_comes_once_in_any_order(miniature: Checkpoint) -> None:
    told: list[int] = []
    with WeightReader(miniature, told.append) as reader:
        reader.expect(DENSE)
        for name in reversed(DENSE):
            assert torch.equal(reader.tensor(name), miniature.read(name))
    assert sum(told) == sum(reader.read.values()) == sum(map(miniature.nbytes, DENSE))


def test_all_that_is_expected_lies_in_one_piece_of_memory(miniature: Checkpoint) -> None:
    with WeightReader(miniature) as reader:
        reader.expect(DENSE)
        storages = {reader.tensor(name).untyped_storage().data_ptr() for name in DENSE}
    assert len(storages) == 1


def test_memory_goes_with_the_last_tensor_and_waits_for_no_garbage_collection(miniature: Checkpoint) -> None:
    gc.disable()
    try:
        with WeightReader(miniature) as reader:
            reader.expect(DENSE)
            kept = [reader.tensor(name) for name in DENSE[1:]]
            ahead = weakref.ref(reader._under_way[0])
        assert ahead() is None and len(kept) == len(DENSE) - 1
    finally:
        gc.enable()


def test_a_table_may_be_read_without_a_look_at_its_numbers(spoiled: Any) -> None:
    spoiled.poke(f"{MATRIX}.weight", 7, b"\x7f")
    with Checkpoint.open(spoiled.directory) as checkpoint, WeightReader(checkpoint) as reader:
        reader.expect([f"{MATRIX}.weight"], refuse_nan=False)
        assert reader.tensor(f"{MATRIX}.weight").flatten()[7] == 0x7F


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_every_place_is_looked_at(size: int, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.weights.reader.CODES_AT_ONCE", 8)
    bits = 0x7F if dtype is np.uint8 else FLOAT32_INFINITY
    codes = np.full(size, bits - 1, dtype)
    assert not any_has_all(codes, bits)
    for place in range(size):
        codes[place] += 1
        assert any_has_all(codes, bits)
        codes[place] -= 1


def test_a_sign_beside_them_hides_no_bits() -> None:
    assert any_has_all(np.array([0xFF], np.uint8), 0x7F)
    assert any_has_all(np.array([-(2**31) | FLOAT32_INFINITY | 5], np.int32), FLOAT32_INFINITY)


def test_a_mapped_expert_matrix_keeps_its_bytes(miniature: Checkpoint) -> None:
    name = "layers.9.ffn.experts.15.w2"
    weight = mapped_float4(miniature, name)
    assert weight.codes.numpy().tobytes() == miniature.read_bytes(f"{name}.weight")
    assert weight.scales.numpy().tobytes() == miniature.read_bytes(f"{name}.scale")


def test_the_largest_scale_that_is_a_number_passes() -> None:
    refuse_nan_scales(torch.tensor([[0, 254]], dtype=torch.uint8), "x", "y")
    refuse_nan_scales(torch.zeros((0, 3), dtype=torch.uint8), "x", "y")
