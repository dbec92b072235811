"""The miniature, and copies of it with one thing wrong."""

import json
import shutil
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

import watchdog
from fake_experts import FakeSource
from miniature import MINI
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan, plan_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.weights.cached_experts import CachedExperts

INDEX = "model.safetensors.index.json"
WATCHDOG_SECONDS = 120
Result = TypeVar("Result")


class SpoiledCopy:
    """A copy of the miniature to damage before it is opened."""

    def __init__(self, directory: Path) -> None:
        shutil.copytree(MINI, directory)
        self.directory = directory
        self.shards: dict[str, str] = json.loads((directory / INDEX).read_text())["weight_map"]

    def poke(self, name: str, offset: int, value: bytes) -> None:
        """Overwrite bytes of a tensor."""
        with Checkpoint.open(self.directory) as checkpoint:
            entry = checkpoint.entry(name)
        with entry.path.open("r+b") as file:
            file.seek(entry.start + offset)
            file.write(value)

    def rename(self, name: str, other: str) -> None:
        """Rename a tensor in its shard and in the index."""
        self._edit_header(self.shards[name], lambda header: header | {other: header.pop(name)})
        index = json.loads((self.directory / INDEX).read_text())
        index["weight_map"][other] = index["weight_map"].pop(name)
        (self.directory / INDEX).write_text(json.dumps(index))

    def retype(self, name: str, dtype: str) -> None:
        """State another dtype of the same width."""
        self._edit_header(self.shards[name], lambda header: header | {name: header[name] | {"dtype": dtype}})

    def reshape(self, name: str, shape: list[int]) -> None:
        """State another shape of the same size."""
        self._edit_header(self.shards[name], lambda header: header | {name: header[name] | {"shape": shape}})

    def _edit_header(self, shard: str, edit: Callable[[dict], dict]) -> None:  # type: ignore[type-arg]
        path = self.directory / shard
        content = path.read_bytes()
        (nbytes,) = struct.unpack("<Q", content[:8])
        header = json.dumps(edit(json.loads(content[8 : 8 + nbytes]))).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + content[8 + nbytes :])


@pytest.fixture(scope="session")
def config() -> ModelConfig:
    return load_config(MINI)


@pytest.fixture(scope="session")
def plans(config: ModelConfig) -> tuple[LayerPlan, ...]:
    return plan_layers(config)


@pytest.fixture(scope="session")
def miniature() -> Iterator[Checkpoint]:
    with Checkpoint.open(MINI) as checkpoint:
        yield checkpoint


@pytest.fixture
def spoiled(tmp_path: Path) -> SpoiledCopy:
    return SpoiledCopy(tmp_path / "spoiled")


@pytest.fixture
def within() -> Callable[[Callable[[], Result]], Result]:
    """Runs a call in a thread of its own and fails where it does not return: a hang is a failure, not a wait."""

    return partial(watchdog.within, seconds=WATCHDOG_SECONDS)


@pytest.fixture
def make() -> Iterator[Callable[..., CachedExperts]]:
    """Stores that are closed at the end, whatever became of them."""
    made = list[CachedExperts]()

    def make(source: FakeSource, num_slots: int, **options: Any) -> CachedExperts:
        made.append(CachedExperts(source, num_slots, **options))
        return made[-1]

    yield make
    for experts in made:
        if isinstance(experts.source, FakeSource) and experts.source.gate is not None:
            experts.source.gate.set()
        experts.close()
