"""A checkpoint loaded to be measured: no text is made, so it needs no tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from shoal.bench.machine import free_memory
from shoal.bench.region import FEWEST_EXPERTS, RELEASED, RESERVE_NBYTES, Say
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan, plan_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.engram.token_map import TokenMap
from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache
from shoal.model.engram import EngramRows
from shoal.model.moe import Experts
from shoal.ops.choose import arithmetic_named
from shoal.plan.size import gib
from shoal.plan.stored import Stored, count_stored
from shoal.weights.cached_experts import CachedExperts
from shoal.weights.engram_store import StoredEngramRows
from shoal.weights.experts import MappedExperts
from shoal.weights.load import TOKENIZER_FILE, TotalProgress, load_backbone
from shoal.weights.report import LoadReport
from shoal.weights.row_reader import RowReader
from shoal.weights.stored_experts import StoredExperts

FIRST_ID = 1
"""Prompts are this id and those after it."""
ROW_CACHE_NBYTES = 64 << 20
PROBE_NBYTES = FEWEST_EXPERTS * RELEASED.nbytes + RESERVE_NBYTES
"""What the probe beside the model and everything else take."""


@dataclass(frozen=True)
class BenchModel:
    """The model, what loading said, and where its routed experts are: `memory` or `mapped`.

    Engram rows are read as a run reads them. Close it before its checkpoint.
    """

    backbone: Backbone
    config: ModelConfig
    stored: Stored
    report: LoadReport
    experts: str
    readers: tuple[CachedExperts | StoredEngramRows, ...]

    def close(self) -> None:
        """Ends what reads experts and rows."""
        for reader in self.readers:
            reader.close()

    def step(self, tokens: Sequence[int], cache: SequenceCache) -> int:
        """The next token, greedily."""
        output = self.backbone.forward(Batch.build([tokens], [cache]), [cache])
        return int(output.logits[0].argmax())

    def prompt(self, count: int) -> list[int]:
        """`count` ids of the vocabulary."""
        return [(FIRST_ID + i) % self.config.vocab_size for i in range(count)]


def token_map(directory: Path, config: ModelConfig) -> TokenMap | None:
    """The tokenizer's where there is one; else ids modulo the number of compressed ids, just as good for timing."""
    if not config.has_engram:
        return None
    if (file := directory / TOKENIZER_FILE).is_file():
        return TokenMap.load(file, config, None)
    ids = np.arange(config.vocab_size, dtype=np.int64) % config.engram_compressed_vocab_size
    return TokenMap(ids, int(ids[config.engram_pad_id]))


def load_model(
    checkpoint: Checkpoint,
    isa: str,
    threads: int,
    say: Say,
    *,
    hold_experts: bool = True,
    progress: TotalProgress | None = None,
) -> BenchModel:
    """The dense weights in memory; with `hold_experts` all routed experts too, where they fit, which is said."""
    directory = checkpoint.directory
    config = load_config(directory)
    # The kernels have threads of their own.
    torch.set_num_threads(1)
    plans, stored = plan_layers(config), count_stored(config)
    backbone_plans = [plan for plan in plans if not plan.is_draft]
    held = hold_experts and _fit(stored, say)
    experts: Experts = MappedExperts(checkpoint, plans)
    readers: tuple[CachedExperts | StoredEngramRows, ...] = ()
    if held:
        experts = CachedExperts(StoredExperts(checkpoint, config, backbone_plans, say), stored.num_experts)
        readers = (experts,)
    rows: EngramRows | None = None
    if config.has_engram:
        rows = StoredEngramRows(checkpoint, backbone_plans, ROW_CACHE_NBYTES, RowReader(checkpoint, notice=say))
        readers = (*readers, rows)
    loaded = load_backbone(
        config,
        checkpoint,
        arithmetic=arithmetic_named("native", isa, threads),
        token_map=token_map(directory, config),
        experts=experts,
        engram_rows=rows,
        progress=progress,
    )
    if held:
        bring_in(experts, backbone_plans, config, say)
    where = "memory" if held else "mapped"
    return BenchModel(loaded.backbone, config, stored, loaded.report, where, readers)


def _fit(stored: Stored, say: Say) -> bool:
    wanted, free = stored.dense + stored.num_experts * stored.expert_nbytes + PROBE_NBYTES, free_memory()
    if wanted <= free:
        return True
    say(f"{gib(free)} of memory is free, {gib(wanted)} would hold all experts: they are read through the page cache")
    return False


def bring_in(experts: Experts, plans: Sequence[LayerPlan], config: ModelConfig, say: Say) -> None:
    """Ask for every expert of the layers once."""
    for plan in plans:
        say(f"bringing experts into memory: layer {plan.layer_id + 1} of {len(plans)}")
        for _ in experts.arrivals(plan.layer_id, range(config.n_routed_experts)):
            pass
