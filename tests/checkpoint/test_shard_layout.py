"""The shards of a configuration are the released ones, byte for byte as far as those are published (spec §2.2)."""

import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from miniature import MINI
from shoal.checkpoint.header import read_header
from shoal.checkpoint.shard_layout import ALIGNMENT, ShardLayout, header_bytes, lay_out
from shoal.config.layouts import load_config
from shoal.errors import ConfigError

RELEASE = Path(__file__).parents[1] / "data" / "release"


@pytest.fixture(scope="module")
def released() -> list[ShardLayout]:
    return lay_out(load_config(RELEASE))


@pytest.fixture(scope="module")
def published() -> list[dict[str, Any]]:
    shards: list[dict[str, Any]] = json.loads((RELEASE / "shard_headers.json").read_text())
    return shards


def test_the_release_has_the_published_headers(released: list[ShardLayout], published: list[dict[str, Any]]) -> None:
    assert len(released) == len(published) == 48
    for shard, facts in zip(released, published, strict=True):
        header = header_bytes(shard)
        found = (len(shard.tensors), shard.payload_nbytes, len(header), len(header) + shard.payload_nbytes)
        wanted = ("tensors", "payload_bytes", "header_prefix_bytes", "file_bytes")
        assert found == tuple(facts[key] for key in wanted), shard.file_name
        if "header_prefix_sha256" in facts:  # of all but the two Engram shards
            assert hashlib.sha256(header).hexdigest() == facts["header_prefix_sha256"], shard.file_name


def test_the_release_has_the_published_index(released: list[ShardLayout]) -> None:
    index = json.loads(gzip.decompress((RELEASE / "model.safetensors.index.sorted.json.gz").read_bytes()))
    weight_map = {placed.spec.name: shard.file_name for shard in released for placed in shard.tensors}
    assert weight_map == index["weight_map"]
    assert sum(shard.payload_nbytes for shard in released) == index["metadata"]["total_size"]


def test_the_miniature_has_18_shards_with_the_tensors_its_index_says() -> None:
    index = json.loads((MINI / "model.safetensors.index.json").read_text())
    shards = lay_out(load_config(MINI))
    assert len(shards) == 18
    assert {placed.spec.name: shard.file_name for shard in shards for placed in shard.tensors} == index["weight_map"]


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({"vision_n_layers": 0}, 17),
        ({"engram_layer_ids": (), "engram_num_embeddings": ()}, 16),
        ({"n_mtp_layers": 0, "compress_ratios": (0, 0, 2, 2, 2, 2, 1, 1, 1, 1)}, 15),
    ],
)
def test_the_number_of_shards_follows_from_the_config(change: dict[str, Any], number: int) -> None:
    shards = lay_out(replace(load_config(MINI), **change))
    assert [shard.file_name for shard in shards] == [
        f"model-{place:05}-of-{number:05}.safetensors" for place in range(1, number + 1)
    ]


def test_a_header_is_read_back_and_the_payload_is_aligned(tmp_path: Path) -> None:
    for shard in lay_out(load_config(MINI)):
        blob = header_bytes(shard)
        path = tmp_path / shard.file_name
        path.write_bytes(blob + bytes(shard.payload_nbytes))
        header = read_header(path)
        assert header.payload_start == len(blob)
        assert len(blob) % ALIGNMENT == 0
        assert [(entry.name, entry.dtype, entry.shape, entry.nbytes) for entry in header.tensors.values()] == [
            (placed.spec.name, placed.spec.dtype, placed.spec.shape, placed.spec.nbytes) for placed in shard.tensors
        ]
        assert shard.payload_nbytes == sum(placed.spec.nbytes for placed in shard.tensors)


def test_layers_that_disagree_have_no_layout() -> None:
    with pytest.raises(ConfigError):
        lay_out(replace(load_config(MINI), compress_ratios=(0, 0)))
