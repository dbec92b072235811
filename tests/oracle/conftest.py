"""The goldens of the released code, the miniature under each arithmetic, and layers run one at a time from goldens."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from miniature import MINI
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache
from shoal.model.indexer import Indexer
from shoal.model.step import Step
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.native import Native
from shoal.ops.quantize import Quantized, quantize_q4c, quantize_q4i, quantize_q8_torch
from shoal.ops.release import Release
from shoal.ops.wide import Wide
from shoal.tracing.cache_tensors import cache_tensors
from shoal.weights.load import load_backbone

GOLDENS = Path(__file__).parents[1] / "data" / "oracle" / "goldens"
Golden = dict[str, Tensor]
LIMITS = ("MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")


def without_avx512() -> str | None:
    """Why MKL and oneDNN do not run the kernels the goldens were recorded with; None where they do."""
    found = torch.backends.cpu.get_cpu_capability()
    if not found.startswith("AVX512"):
        return f"the goldens' bits need a CPU with AVX-512, torch found {found}"
    if not torch.backends.mkl.is_available():
        return "the goldens' bits need a torch built with MKL"
    if limit := next((name for name in LIMITS if name in os.environ), None):
        return f"`{limit}` is set, which may keep MKL or oneDNN from AVX-512"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and "GenuineIntel" not in cpuinfo.read_text(encoding="utf-8", errors="replace"):
        return "MKL uses AVX-512 on Intel's CPUs only"
    return None


@pytest.fixture(scope="session")
def _avx512() -> None:
    if reason := without_avx512():
        pytest.skip(reason)


@pytest.fixture(params=[1, 2])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@cache
def _golden(name: str) -> Golden:
    return load_file(GOLDENS / f"{name}.safetensors")


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Golden]:
    """Golden file by name, to be left as it is."""
    return _golden


@pytest.fixture(scope="session")
def prompt_ids() -> list[int]:
    """The ids that every run slices."""
    ids: list[int] = json.loads((GOLDENS / "prompt.json").read_text(encoding="utf-8"))["ids"]
    return ids


@pytest.fixture(scope="session")
def ragged() -> dict[str, Any]:
    """Three prompts of different lengths and their greedy completions, alone and batched."""
    content: dict[str, Any] = json.loads((GOLDENS / "batch_ragged.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="session")
def greedy_batch() -> Callable[..., list[list[int]]]:
    """(backbone, prompts, count) → the `count` likeliest next tokens of every prompt, all run in one batch."""
    return _greedy_batch


def _greedy_batch(backbone: Backbone, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    caches = [backbone.new_cache() for _ in prompts]
    chunks = [list(prompt) for prompt in prompts]
    completions: list[list[int]] = [[] for _ in prompts]
    for _ in range(count):
        logits = backbone.forward(Batch.build(chunks, caches), caches).logits
        chunks = [[token] for token in logits.argmax(-1).tolist()]
        completions = [[*done, *chunk] for done, chunk in zip(completions, chunks, strict=True)]
    return completions


@cache
def _backbone(arithmetic: str) -> Backbone:
    chosen: Arithmetic = {"wide": Wide, "native": Native, "release": Release}[arithmetic]()
    # Left open: experts are read from it for as long as the session lasts.
    return load_backbone(load_config(MINI), Checkpoint.open(MINI), arithmetic=chosen).backbone


@pytest.fixture(scope="session")
def wide() -> Backbone:
    return _backbone("wide")


@pytest.fixture(scope="session")
def native() -> Backbone:
    return _backbone("native")


@pytest.fixture(scope="session")
def release() -> Backbone:
    return _backbone("release")


@dataclass(frozen=True)
class LayerwiseRun:
    """Every layer run from the golden output of the one before: `tensors` by golden names, the cache's included."""

    golden: Golden
    tensors: Golden


class _GoldenPicks:
    """An indexer that publishes the golden's picks: among equal scores either choice is right."""

    def __init__(self, indexer: Indexer, picks: Tensor, count: int) -> None:
        self.indexer = indexer
        self.picks = torch.full((picks.shape[0], count), -1)
        self.picks[:, : picks.shape[1]] = picks

    def select(self, x: Tensor, qr: Quantized, step: Step) -> None:
        self.indexer.select(x, qr, step)
        step.selected[0] = self.picks


def run_layerwise(backbone: Backbone, golden: Golden, sequence: SequenceCache) -> LayerwiseRun:
    """Run every layer on the golden's rows; `golden` has every internal, picks without offset."""
    ids = golden["input_ids"].tolist()
    recorded: Golden = {}
    step = backbone._begin(Batch.build([ids], [sequence]), (sequence,), recorded.__setitem__)
    for index, layer in enumerate(backbone.layers):
        streams = golden["L0.stream_in"] if index == 0 else golden[f"L{index - 1}.stream_out"]
        pre = torch.eye(4)[:1].repeat(len(ids), 1) if index == 0 else golden[f"L{index - 1}.pre_mix_out"]
        if layer.engram is not None:
            layer.engram.forward(streams, step)
            streams = golden[f"L{index}.engram.stream_out"]
        indexer = layer.attention.indexer
        if indexer is not None and f"L{index}.topk" in golden:
            picks = golden[f"L{index}.topk"].long()
            layer.attention.indexer = _GoldenPicks(indexer, picks, backbone.config.index_topk)  # type: ignore[assignment]
        try:
            layer.forward(streams, pre, step)
        finally:
            layer.attention.indexer = indexer
    sequence.commit(len(ids))
    return LayerwiseRun(golden, recorded | dict(cache_tensors(sequence)))


def without_offset(golden: Golden, offset: int) -> Golden:
    """The golden with its picks as compressed positions."""
    return {
        name: torch.where(value >= 0, value.long() - offset, -1) if name.endswith(".topk") else value
        for name, value in golden.items()
    }


def cache_before_last(backbone: Backbone, golden: Golden, ids: list[int]) -> SequenceCache:
    """The cache before the last of `ids`, taken from the golden's caches after it; their number before it is even.

    The ring's oldest row has been overwritten by the last token's, but no query from here on reads it.
    """
    length = len(ids) - 1
    sequence = backbone.new_cache()
    state = sequence.state()
    for layer in sequence.rings:
        _put(state, f"ring.{layer}", quantize_q8_torch(golden[f"cache.L{layer}.window_kv"]))
    for layer in sequence.entries:
        count = length // backbone.plans[layer].compress_ratio
        _put(state, f"entries.{layer}", quantize_q4c(golden[f"cache.L{layer}.compress_kv"][:count]))
        _put(state, f"index_keys.{layer}", quantize_q4i(golden[f"cache.L{layer}.index_k"][:count]))
    assert backbone.addresses is not None
    reach = state["history"].numel()
    history = torch.tensor(ids[length - reach : length]).numpy()
    state["history"] = torch.from_numpy(backbone.addresses.token_map.compress(history, None))
    sequence.load(state, length)
    for name, value in cache_tensors(sequence):
        if not name.endswith("_state"):
            assert torch.equal(value, golden[name][: value.shape[0]]), f"{name} is no longer what the golden says"
    return sequence


def _put(state: Golden, name: str, rows: Quantized) -> None:
    state[f"{name}.codes"], state[f"{name}.scales"] = rows.codes, rows.scales


@cache
def _layerwise(arithmetic: str, name: str) -> LayerwiseRun:
    backbone, golden = _backbone(arithmetic), _golden(name)
    if name == "prefill_401":
        return run_layerwise(backbone, *_last_row(backbone, golden, golden["input_ids"].tolist()))
    rows = without_offset(golden, golden["input_ids"].numel())
    return run_layerwise(backbone, rows, backbone.new_cache())


def _last_row(backbone: Backbone, golden: Golden, ids: list[int]) -> tuple[Golden, SequenceCache]:
    per_row = {name: value[-1:] for name, value in golden.items() if not name.startswith("cache.")}
    caches = {name: value for name, value in golden.items() if name.startswith("cache.")}
    return without_offset(per_row, len(ids)) | caches, cache_before_last(backbone, golden, ids)


@pytest.fixture(scope="session")
def layerwise() -> Callable[[str, str], LayerwiseRun]:
    """(arithmetic, golden file) → every layer run from golden inputs.

    Of `prefill_401` the last token's row, the only one whose window the golden's caches hold.
    """
    return _layerwise
