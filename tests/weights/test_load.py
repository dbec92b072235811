"""Loading: what is read, left and ignored, and that stores change no bit."""

from typing import Any

import pytest
import torch

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.errors import EngramError, TensorError, TokenizerError
from shoal.model.batch import Batch
from shoal.ops.native import Native
from shoal.weights.cached_experts import CachedExperts
from shoal.weights.engram_tables import ResidentEngramRows
from shoal.weights.load import LoadedBackbone, load_backbone
from shoal.weights.reader import WeightReader
from shoal.weights.stored_experts import StoredExperts

IDS = [0, 431, 77, 1002, 5]


@pytest.fixture(scope="module")
def loaded(config: ModelConfig, miniature: Checkpoint) -> LoadedBackbone:
    return load_backbone(config, miniature)


def logits(loaded: LoadedBackbone) -> torch.Tensor:
    cache = loaded.backbone.new_cache()
    return loaded.backbone.forward(Batch.build([IDS], [cache], logits="all"), [cache]).logits


def test_every_tensor_is_read_or_left_or_ignored(loaded: LoadedBackbone) -> None:
    report = loaded.report
    assert (report.read, report.left, report.ignored) == (337, 964, 267)
    assert report.read + report.left + report.ignored == 1568


def test_the_bytes_of_each_class_are_counted(loaded: LoadedBackbone, miniature: Checkpoint) -> None:
    experts = [name for name in miniature.names() if name.startswith("layers.") and ".experts." in name]
    routed = sum(miniature.nbytes(name) for name in experts)
    assert loaded.report.left_nbytes["routed experts"] == routed
    assert loaded.report.left_nbytes["Engram"] == (3688 + 3904) * (64 + 2)
    assert loaded.report.nbytes["embedding and head"] == (2 * 1024 + 1) * 160 * 2


def test_the_report_reads_as_a_line_a_class(loaded: LoadedBackbone) -> None:
    lines = loaded.report.lines()
    assert lines[0].startswith("337 tensors read, 964 left, 267 ignored, ")
    assert len(lines) == 1 + len(loaded.report.nbytes) + len(loaded.report.left_nbytes)


def test_progress_ends_at_the_total(config: ModelConfig, miniature: Checkpoint) -> None:
    told: list[tuple[int, int]] = []
    report = load_backbone(config, miniature, progress=lambda done, total: told.append((done, total))).report
    assert told[-1][0] == told[-1][1] == sum(report.nbytes.values())
    assert [done for done, _ in told] == sorted(done for done, _ in told)


@pytest.mark.parametrize(("num_slots", "num_threads"), [(1, 1), (3, 2), (30, 3), (184, 2)])
def test_stores_change_no_bit(
    config: ModelConfig,
    miniature: Checkpoint,
    plans: tuple[LayerPlan, ...],
    num_slots: int,
    num_threads: int,
) -> None:
    experts = CachedExperts(StoredExperts(miniature, config, plans), num_slots, num_threads=num_threads)
    with WeightReader(miniature) as reader:
        rows = ResidentEngramRows(reader, plans)
    mapped = load_backbone(config, miniature, arithmetic=Native())
    other = load_backbone(config, miniature, arithmetic=Native(), experts=experts, engram_rows=rows)
    for _ in range(2):  # cold, then with what was kept
        assert torch.equal(logits(other), logits(mapped))
    experts.close()


def test_a_missing_tensor_stops_the_load(config: ModelConfig, spoiled: Any) -> None:
    spoiled.rename("layers.8.attn.indexer.weights_proj.weight", "layers.8.attn.indexer.proj.weight")
    with Checkpoint.open(spoiled.directory) as checkpoint, pytest.raises(TensorError, match="weights_proj"):
        load_backbone(config, checkpoint)


def test_a_missing_tokenizer_stops_the_load(config: ModelConfig, spoiled: Any) -> None:
    (spoiled.directory / "tokenizer.json").unlink()
    with (
        Checkpoint.open(spoiled.directory) as checkpoint,
        pytest.raises(TokenizerError, match=r"tokenizer\.json"),
    ):
        load_backbone(config, checkpoint)


def test_table_sizes_that_are_not_the_primes_stop_the_load(config: ModelConfig, miniature: Checkpoint) -> None:
    from dataclasses import replace

    other = replace(config, engram_vocab_size=607)
    with pytest.raises(EngramError, match="engram_num_embeddings"):
        load_backbone(other, miniature)
