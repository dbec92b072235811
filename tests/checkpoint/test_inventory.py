"""The inventory of a configuration is the released checkpoint, tensor by tensor (spec §2)."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shoal.checkpoint.inventory import TensorSpec, inventory
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config

RELEASE = Path(__file__).parents[1] / "data" / "release"


@pytest.fixture(scope="module")
def implied() -> dict[str, TensorSpec]:
    specs = list(inventory(load_config(RELEASE / "config.json")))
    by_name = {spec.name: spec for spec in specs}
    assert len(by_name) == len(specs), "a tensor is implied twice"
    return by_name


@pytest.fixture(scope="module")
def released() -> dict[str, list[Any]]:
    listing = json.loads(gzip.decompress((RELEASE / "tensors.json.gz").read_bytes()))
    tensors: dict[str, list[Any]] = listing["tensors"]
    return tensors


def test_the_release_has_96085_tensors(implied: dict[str, TensorSpec]) -> None:
    assert len(implied) == 96085


def test_every_name_dtype_and_shape_is_the_released_one(
    implied: dict[str, TensorSpec], released: dict[str, list[Any]]
) -> None:
    found = {name: (spec.dtype, list(spec.shape)) for name, spec in implied.items()}
    wanted = {name: (dtype, shape) for name, (dtype, shape, *_) in released.items()}
    assert sorted(found.keys() ^ wanted.keys())[:5] == []
    assert [name for name in found if found[name] != wanted[name]][:5] == []


def test_every_tensor_has_a_class(implied: dict[str, TensorSpec]) -> None:
    assert Counter(spec.kind for spec in implied.values()) == {
        "routed experts": 94464,
        "Engram": 12,
        "attention": 603,
        "embedding and head": 3,
        "shared experts": 240,
        "vision": 266,
        "draft": 97,
        "norms, mixes, routers": 400,
    }


def test_the_payload_is_that_of_the_release(implied: dict[str, TensorSpec]) -> None:
    widths = {"F8_E4M3": 1, "F8_E8M0": 1, "I8": 1, "BF16": 2, "F32": 4}
    nbytes = 0
    for spec in implied.values():
        size = widths[spec.dtype]
        for axis in spec.shape:
            size *= axis
        nbytes += size
    assert nbytes == 510_286_023_000


def test_the_miniature_holds_what_its_config_implies(miniature: Path) -> None:
    with Checkpoint.open(miniature) as checkpoint:
        entries = [checkpoint.entry(name) for name in checkpoint.names()]
    assert {entry.name: (entry.dtype, entry.shape) for entry in entries} == {
        spec.name: (spec.dtype, spec.shape) for spec in inventory(load_config(miniature))
    }


def test_both_layouts_imply_the_same_tensors() -> None:
    nested, flat = (load_config(RELEASE / name) for name in ("config.json", "inference/config.json"))
    assert list(inventory(nested)) == list(inventory(flat))
