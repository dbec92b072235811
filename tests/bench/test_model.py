"""Checkpoints loaded to be measured, on the miniature."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from miniature import MINI
from shoal.bench.decode import Decode
from shoal.bench.load import drop_from_page_cache, load_results
from shoal.bench.model import BenchModel, load_model, token_map
from shoal.bench.prefill import Prefill
from shoal.bench.slim import figure_of
from shoal.bench.workbench import Workbench
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.ops.kernels import available_isas
from shoal.plan.disk_probe import DiskRate
from shoal.weights.cached_experts import CachedExperts
from shoal.weights.engram_store import StoredEngramRows


# What times its parts stays in place from test to test, and changes nothing but the time.
@pytest.fixture(scope="module")
def model() -> Iterator[BenchModel]:
    with (
        Checkpoint.open(MINI) as checkpoint,
        closing(load_model(checkpoint, available_isas()[0], 1, lambda text: None)) as model,
    ):
        yield model


def test_engram_rows_are_read_as_a_run_reads_them(model: BenchModel) -> None:
    rows = model.backbone.engram_rows
    assert isinstance(rows, StoredEngramRows)
    before = rows.statistics.rows
    model.step(model.prompt(2), model.backbone.new_cache())
    assert rows.statistics.rows > before


def test_all_experts_are_brought_into_memory_before_anything_is_timed(model: BenchModel) -> None:
    assert model.experts == "memory"
    experts = model.backbone.layers[0].moe.experts
    assert isinstance(experts, CachedExperts)
    held = experts.statistics.misses
    model.step(model.prompt(2), model.backbone.new_cache())
    assert experts.statistics.misses == held == model.config.n_layers * model.config.n_routed_experts


def test_a_decoded_token_s_bytes_are_its_weights_as_stored(model: BenchModel, bench: Workbench) -> None:
    traffic = Decode(model, bench.probe, 1).traffic()
    config, stored = model.config, model.stored
    assert traffic["routed experts"] == config.n_layers * config.n_activated_experts * stored.expert_nbytes
    assert traffic["head"] == config.vocab_size * config.dim * 2 + config.dim * 2


def test_a_decoded_token_is_a_row_and_so_are_its_parts(model: BenchModel, bench: Workbench) -> None:
    rows = list(Decode(model, bench.probe, 1).results("decode", parts=True))
    assert [row.name for row in rows] == [
        "decode",
        "decode: attention",
        "decode: experts",
        "decode: Engram",
        "decode: the rest",
    ]
    token, *parts = rows
    assert token.nbytes == sum(part.nbytes for part in parts)
    assert token.unit == "tokens a second"
    assert 0.5 < sum(part.seconds for part in parts) / token.seconds < 2


def test_a_prompt_is_extrapolated_from_layers_to_the_model(model: BenchModel, bench: Workbench) -> None:
    (row,) = Prefill(model, bench.probe, model.config, rounds=1).results([5])
    assert row.name == "prefill_5"
    # The miniature extrapolated to itself is itself.
    measured = row.more["measured_seconds"]
    assert isinstance(measured, float)
    assert row.seconds == pytest.approx(measured, rel=1e-6)
    assert row.value == pytest.approx(5 / measured)
    assert row.more["assumed_kinds"] == []


def test_loading_is_measured_past_the_page_cache_and_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[bool]()
    really = Checkpoint.open_direct

    def open_direct(self: Checkpoint, *given: Any, through_page_cache: bool) -> Any:
        opened.append(through_page_cache)
        return really(self, *given, through_page_cache=through_page_cache)

    monkeypatch.setattr(Checkpoint, "open_direct", open_direct)
    rows = {row.name: row for row in load_results(MINI, DiskRate(1e9, True))}
    assert list(rows) == ["load_cold", "load_page_cache", "load_warm"]
    assert [row.more["direct"] for row in rows.values()] == [True, False, False]
    shards = len(opened) // 3
    assert opened == [False] * shards + [True] * 2 * shards
    for row in rows.values():
        assert row.nbytes > 1 << 20
        assert row.ratio == pytest.approx(row.nbytes / row.seconds / 1e9)


def test_dropping_from_the_page_cache_leaves_the_files_alone(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"abc")
    drop_from_page_cache([file])
    assert file.read_bytes() == b"abc"


def test_without_a_tokenizer_ids_stand_in_for_compressed_ones(tmp_path: Path) -> None:
    config = load_config(MINI)
    stand_in = token_map(tmp_path, config)
    assert stand_in is not None
    assert len(stand_in.ids) == config.vocab_size
    assert int(stand_in.ids.max()) < config.engram_compressed_vocab_size


@pytest.mark.parametrize(
    ("content", "figure"),
    [('{"preset": "slim"}', "decode_slim"), ('{"preset": "layers"}', "decode"), ("[]", "decode"), ("{", "decode")],
)
def test_only_a_slim_checkpoint_gives_the_published_figure(tmp_path: Path, content: str, figure: str) -> None:
    assert figure_of(tmp_path) == "decode"
    (tmp_path / "synth.json").write_text(content)
    assert figure_of(tmp_path) == figure
