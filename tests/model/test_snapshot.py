"""Snapshot files: what is written comes back, whole or not at all; everything else is refused by name."""

import dataclasses
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import shoal.model.snapshot
from shoal.config.layer_plan import plan_layers
from shoal.config.schema import ModelConfig
from shoal.errors import SnapshotError
from shoal.model.cache import SequenceCache
from shoal.model.snapshot import load_snapshot, save_snapshot


def sequence(config: ModelConfig, length: int) -> SequenceCache:
    """A cache of `length` tokens of noise."""
    cache = SequenceCache(config, plan_layers(config))
    generator = torch.Generator().manual_seed(length)
    state = {}
    for name, tensor in cache.state().items():
        shape = cache._expected_shape(name, tuple(tensor.shape), length)
        state[name] = torch.randint(0, 100, shape, generator=generator).to(tensor.dtype)
    cache.load(state, length)
    return cache


@pytest.mark.parametrize("length", [0, 1, 2, 33])
def test_what_is_saved_comes_back(config: ModelConfig, tmp_path: Path, length: int) -> None:
    saved, restored = sequence(config, length), sequence(config, 7)
    save_snapshot(saved, config, tmp_path / "größe.bin")
    load_snapshot(tmp_path / "größe.bin", config, restored)
    assert restored.length == length
    assert all(torch.equal(tensor, restored.state()[name]) for name, tensor in saved.state().items())


def test_a_file_of_another_config_is_refused(config: ModelConfig, tmp_path: Path) -> None:
    path = tmp_path / "s"
    save_snapshot(sequence(config, 3), config, path)
    other = dataclasses.replace(config, route_scale=2.0)
    with pytest.raises(SnapshotError, match="of a model with another configuration"):
        load_snapshot(path, other, sequence(other, 0))


def test_the_nested_and_the_flat_file_of_a_model_are_one_config(
    config: ModelConfig, flat_config: ModelConfig, tmp_path: Path
) -> None:
    assert config != flat_config
    save_snapshot(sequence(config, 3), config, tmp_path / "s")
    load_snapshot(tmp_path / "s", flat_config, sequence(config, 0))


@settings(max_examples=40)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_damaged_file_is_refused(config: ModelConfig, tmp_path: Path, place: float, flip: int) -> None:
    path, cache = tmp_path / "s", sequence(config, 33)
    save_snapshot(cache, config, path)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= flip
    path.write_bytes(content)
    before = cache.state()
    try:
        load_snapshot(path, config, cache)
    except SnapshotError as error:
        assert "`" in str(error)
    # A flip of white space or of an offset's spelling may leave the same tensors.
    assert all(torch.equal(tensor, cache.state()[name]) for name, tensor in before.items())


@settings(max_examples=20)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_refused(config: ModelConfig, tmp_path: Path, share: float) -> None:
    path = tmp_path / "s"
    save_snapshot(sequence(config, 3), config, path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(SnapshotError, match="damaged or not a snapshot"):
        load_snapshot(path, config, sequence(config, 0))


@pytest.mark.parametrize("length", ["4", "-3", "3_0", "", "9" * 5000])
def test_another_length_than_was_saved_is_refused(config: ModelConfig, tmp_path: Path, length: str) -> None:
    path = tmp_path / "s"
    save_snapshot(sequence(config, 3), config, path)
    with shoal.model.snapshot.safe_open(path, framework="pt") as file:
        metadata = file.metadata() | {"length": length}
    save_file(sequence(config, 3).state(), path, metadata)
    with pytest.raises(SnapshotError, match="is damaged"):
        load_snapshot(path, config, sequence(config, 0))


def test_another_safetensors_file_is_refused(config: ModelConfig, tmp_path: Path) -> None:
    path = tmp_path / "s"
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(SnapshotError, match="not a sequence snapshot: format `absent`"):
        load_snapshot(path, config, sequence(config, 0))


@pytest.mark.parametrize("name", ["absent", "."])
def test_what_cannot_be_read_is_named(config: ModelConfig, tmp_path: Path, name: str) -> None:
    with pytest.raises(SnapshotError, match=r"`.*`"):
        load_snapshot(tmp_path / name, config, sequence(config, 0))


def test_a_directory_that_is_not_there_is_named(config: ModelConfig, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"cannot write the snapshot `.*/missing/s`"):
        save_snapshot(sequence(config, 3), config, tmp_path / "missing" / "s")


def test_a_failed_write_leaves_the_old_file(
    config: ModelConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    save_snapshot(sequence(config, 3), config, path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SnapshotError, match="No space left on device"):
        save_snapshot(sequence(config, 5), config, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
