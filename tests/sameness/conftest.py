"""Drives sequences through the miniature, under wide arithmetic and by the native kernels, and says what they remember.

A forward of many sequences costs little more than one of a single token: cuts are tried in lockstep.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache as memoised
from pathlib import Path

import pytest
import torch
from torch import Tensor

from miniature import MINI
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache
from shoal.model.step import Recorder, record_nothing
from shoal.ops.kernels import available_isas
from shoal.ops.native import Native
from shoal.ops.wide import Wide
from shoal.weights.load import load_backbone

PROMPT = Path(__file__).parents[1] / "data" / "oracle" / "goldens" / "prompt.json"

Chunks = Sequence[Sequence[int]]


def remembered(cache: SequenceCache) -> dict[str, Tensor]:
    """All that a later forward can read, and nothing else."""
    parts = {f"ring.{layer}": ring.read() for layer, ring in cache.rings.items()}
    parts |= {f"entries.{layer}": rows.read() for layer, rows in cache.entries.items()}
    parts |= {f"index_keys.{layer}": rows.read() for layer, rows in cache.index_keys.items()}
    for layer, group in cache.open_groups.items():
        parts |= {f"values.{layer}": group.values, f"gates.{layer}": group.gates}
    return parts | {"history": torch.from_numpy(cache.history.ids), "length": torch.tensor(cache.length)}


def bits(tensor: Tensor) -> Tensor:
    """The tensor as integers, so that NaN and the signs of zeros are compared too."""
    sizes = {2: torch.int16, 4: torch.int32}
    return tensor.contiguous().view(sizes[tensor.itemsize]) if tensor.is_floating_point() else tensor


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[str]:
    """The names whose bits differ."""
    assert a.keys() == b.keys(), sorted(a.keys() ^ b.keys())
    return [name for name in a if not torch.equal(bits(a[name]), bits(b[name]))]


@dataclass(frozen=True)
class Run:
    """The logits of every token of a sequence, and what it remembers after the last."""

    logits: Tensor
    memory: dict[str, Tensor]
    cache: SequenceCache

    def differences(self, wanted: "Run", first: int = 0) -> list[str]:
        """What differs from another run of the same tokens, whose rows before `first` are not looked at."""
        rows = self.logits.shape[0]
        found = {"logits": self.logits, **self.memory}
        return same(found, {"logits": wanted.logits[first : first + rows], **wanted.memory})


class Driver:
    """Runs token ids through the backbone. One `is_slow` where every forward takes so long that fewer must do."""

    def __init__(self, backbone: Backbone, ids: Sequence[int], is_slow: bool = False) -> None:
        self.backbone, self.ids, self.is_slow = backbone, list(ids), is_slow
        self.before_forward: Callable[[Sequence[SequenceCache]], None] = lambda caches: None
        self._whole = memoised(self._run_whole)

    def whole(self, end: int, start: int = 0) -> Run:
        """The prompt's ids [start, end) in one forward, alone."""
        return self._whole(start, end)

    def prompt(self, sizes: Sequence[int], start: int = 0) -> list[list[int]]:
        """The prompt from `start` on, cut into chunks of these sizes."""
        chunks = []
        for size in sizes:
            chunks.append(self.ids[start : start + size])
            start += size
        return chunks

    def advance(
        self,
        chunks: Chunks,
        caches: Sequence[SequenceCache],
        record: Recorder = record_nothing,
    ) -> list[Tensor]:
        """One forward; the logits of each sequence's tokens."""
        self.before_forward(caches)
        batch = Batch.build(chunks, caches, logits="all")
        logits = self.backbone.forward(batch, caches, record).logits
        return list(logits.split([len(chunk) for chunk in chunks]))

    def lockstep(self, sequences: Sequence[Chunks], caches: Sequence[SequenceCache] | None = None) -> list[Run]:
        """Each sequence chunk by chunk, the n-th chunks of all of them in one forward."""
        held = list(caches) if caches is not None else [self.backbone.new_cache() for _ in sequences]
        logits: list[list[Tensor]] = [[] for _ in sequences]
        for turn in range(max(map(len, sequences))):
            going = [i for i, chunks in enumerate(sequences) if turn < len(chunks)]
            outputs = self.advance([sequences[i][turn] for i in going], [held[i] for i in going])
            for i, output in zip(going, outputs, strict=True):
                logits[i].append(output)
        return [Run(torch.cat(rows), remembered(cache), cache) for rows, cache in zip(logits, held, strict=True)]

    def copy_of(self, cache: SequenceCache) -> SequenceCache:
        """A second sequence in the same state."""
        copy = self.backbone.new_cache()
        copy.load(cache.state(), cache.length)
        return copy

    def _run_whole(self, start: int, end: int) -> Run:
        cache = self.backbone.new_cache()
        (logits,) = self.advance([self.ids[start:end]], [cache])
        return Run(logits, remembered(cache), cache)


@pytest.fixture(scope="session")
def config() -> ModelConfig:
    return load_config(MINI)


@pytest.fixture(scope="session")
def ids() -> list[int]:
    values: list[int] = json.loads(PROMPT.read_text(encoding="utf-8"))["ids"]
    return values


@pytest.fixture(scope="session", params=["wide", "native"])
def arithmetic_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def backbone(config: ModelConfig, arithmetic_name: str) -> Iterator[Backbone]:
    arithmetic = Wide() if arithmetic_name == "wide" else Native(threads=2)
    with Checkpoint.open(MINI) as checkpoint:
        yield load_backbone(config, checkpoint, arithmetic=arithmetic).backbone


@pytest.fixture(scope="session")
def driver(backbone: Backbone, ids: list[int], arithmetic_name: str) -> Driver:
    return Driver(backbone, ids, is_slow=arithmetic_name == "wide")


@pytest.fixture(scope="session")
def native_driver(config: ModelConfig, ids: list[int]) -> Iterator[Callable[[str, int], Driver]]:
    """(instruction set, threads) → a driver of native kernels."""
    with Checkpoint.open(MINI) as checkpoint:
        yield lambda isa, threads: Driver(
            load_backbone(config, checkpoint, arithmetic=Native(isa, threads)).backbone, ids
        )


@pytest.fixture(scope="session")
def native(native_driver: Callable[[str, int], Driver]) -> Driver:
    """Of the best kernels there are: for what is the caches' own, whatever computes."""
    return native_driver(available_isas()[0], 2)


@pytest.fixture(scope="session")
def miniature() -> Path:
    return MINI
