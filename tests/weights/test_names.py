"""A checkpoint must hold exactly what its configuration implies."""

import dataclasses
from typing import Any

import pytest

from shoal.checkpoint.shards import Checkpoint
from shoal.config.schema import ModelConfig
from shoal.errors import TensorError
from shoal.weights.names import expected_tensors, is_backbone, is_left_in_shards

NORM = "layers.3.attn_norm.weight"


def refusal(config: ModelConfig, spoiled: Any) -> TensorError:
    with Checkpoint.open(spoiled.directory) as checkpoint, pytest.raises(TensorError) as caught:
        expected_tensors(config, checkpoint)
    return caught.value


def test_the_miniature_is_what_its_config_implies(config: ModelConfig, miniature: Checkpoint) -> None:
    expected = expected_tensors(config, miniature)
    assert len(expected) == 1568 and set(expected) == set(miniature.names())


def test_a_renamed_tensor_is_named(config: ModelConfig, spoiled: Any) -> None:
    spoiled.rename(NORM, "layers.3.attention_norm.weight")
    error = refusal(config, spoiled)
    assert str(error) == f"`{NORM}` missing from the checkpoint `{spoiled.directory}`"
    assert error.hint is not None


def test_an_unexpected_tensor_is_named(config: ModelConfig, spoiled: Any) -> None:
    fewer = dataclasses.replace(config, vision_n_layers=1)
    message = str(refusal(fewer, spoiled))
    assert "`vision.blocks.1.attn.wo.bias`" in message and "and 5 more not expected in" in message


def test_a_wrong_dtype_is_named(config: ModelConfig, spoiled: Any) -> None:
    spoiled.retype(NORM, "F16")
    shard = spoiled.shards[NORM]
    assert str(refusal(config, spoiled)) == f"`{NORM}` is F16 [160], expected BF16 [160] in `{shard}`"


def test_a_wrong_shape_is_named(config: ModelConfig, spoiled: Any) -> None:
    name = "layers.3.attn.wq_a.weight"
    spoiled.reshape(name, [160, 96])
    found = f"`{name}` is F8_E4M3 [160, 96], expected F8_E4M3 [96, 160] in `{spoiled.shards[name]}`"
    assert str(refusal(config, spoiled)) == found


def test_another_config_is_refused(config: ModelConfig, miniature: Checkpoint) -> None:
    other = dataclasses.replace(config, dim=192)
    with pytest.raises(TensorError, match="expected") as caught:
        expected_tensors(other, miniature)
    assert caught.value.hint == "is this `config.json` the one of this checkpoint?"


def test_only_routed_experts_and_tables_of_the_backbone_stay_in_the_shards(
    config: ModelConfig, miniature: Checkpoint
) -> None:
    expected = expected_tensors(config, miniature)
    left = [name for name, spec in expected.items() if is_left_in_shards(spec)]
    assert all(".ffn.experts." in name or ".engram.embed." in name for name in left)
    # 10 layers of 16 experts of 3 matrices with scales; 2 tables with scales.
    assert len(left) == 10 * 16 * 6 + 4
    unused = [name for name, spec in expected.items() if not is_backbone(spec)]
    assert all(name.startswith(("mtp.", "vision.", "aligner.", "image_")) for name in unused)
