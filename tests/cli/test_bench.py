"""`shoal bench` as a user meets it, on the miniature and a probe of tiny experts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal.bench.budget
import shoal.bench.decode
import shoal.bench.kernels
import shoal.bench.overhead
import shoal.bench.run
from miniature import MINI
from shoal.bench.region import ExpertRegion, ExpertShape
from shoal.config.layouts import load_config

RunShoal = Callable[..., Any]


@pytest.fixture(autouse=True)
def _tiny_experts(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny(shape: ExpertShape, count: int) -> ExpertRegion:
        return ExpertRegion(ExpertShape(64, 32), 64)

    for module in (shoal.bench.kernels, shoal.bench.run):
        monkeypatch.setattr(module, "ExpertRegion", tiny)
    monkeypatch.setattr(shoal.bench.overhead, "ROUNDS", 1)


def test_a_kernel_is_measured_into_a_table_and_a_file(run_shoal: RunShoal, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    outcome = run_shoal("bench", "kernels", "--only", "quantize_q8", "--rounds", 2, "--threads", 1, "--json", file)
    assert outcome.code == 0, outcome.err
    assert "quantize_q8 (1 of 1)" in outcome.err
    assert outcome.out.splitlines()[-1].startswith("quantize_q8 ")
    content = json.loads(file.read_text())
    assert content["machine"]["threads"] == 1
    (row,) = content["results"]
    assert row["name"] == "quantize_q8"
    assert row["rounds"] + row["dropped"] == 2


def test_the_instruction_set_can_be_chosen(run_shoal: RunShoal, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "bench", "kernels", "--only", "quantize_q8", "--rounds", 1
    assert "; portable, " in run_shoal(*command, "--isa", "portable").out
    monkeypatch.setenv("SHOAL_ISA", "portable")
    assert "; portable, " in run_shoal(*command).out
    outcome = run_shoal(*command, "--isa", "quantum")
    assert outcome.code == 1
    assert outcome.err.splitlines()[-1].startswith("error: instruction set `quantum` is not one of ")


def test_an_unknown_figure_is_refused(run_shoal: RunShoal) -> None:
    outcome = run_shoal("bench", "kernels", "--only", "speed")
    assert outcome.code == 1
    assert "error: `speed` is not a figure, expected one of moe_step_1, " in outcome.err


def test_a_figure_without_its_checkpoint_is_said_not_to_be_measured(run_shoal: RunShoal) -> None:
    outcome = run_shoal("bench", "kernels", "--only", "decode_slim")
    assert outcome.code == 0
    assert "not measured: decode_slim: needs `--checkpoint`" in outcome.out


def test_a_token_of_the_miniature_is_decoded(run_shoal: RunShoal, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROMPT_TOKENS", "WARM_TOKENS"):
        monkeypatch.setattr(shoal.bench.decode, name, 1)
    outcome = run_shoal("bench", "decode", MINI, "--tokens", 1)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[-1].startswith("decode ")


def test_requests_of_the_miniature_are_decoded_together(run_shoal: RunShoal, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    outcome = run_shoal("bench", "serve", MINI, "--requests", 3, "--tokens", 2, "--json", file)
    assert outcome.code == 0, outcome.err
    names = ["engine_1", "engine_3", "serve_overhead", "serve_overhead_3"]
    assert [line.split()[0] for line in outcome.out.splitlines()[-4:]] == names
    one, three, *_ = json.loads(file.read_text())["results"]
    assert 0 < one["bytes"] < three["bytes"] < 3 * one["bytes"]
    config = load_config(MINI)
    assert one["experts_a_step"] == config.n_layers * config.n_activated_experts
    assert one["experts_a_step"] < three["experts_a_step"] <= 3 * one["experts_a_step"]
    assert three["bound"] == pytest.approx(3 * one["bytes"] / three["bytes"])
    assert three["ratio"] == pytest.approx(three["value"] / three["bound"])


def test_what_a_server_adds_needs_no_checkpoint(run_shoal: RunShoal) -> None:
    outcome = run_shoal("bench", "serve", "--overhead", "--requests", 2, "--tokens", 4)
    assert outcome.code == 0, outcome.err
    assert [line.split()[0] for line in outcome.out.splitlines()[-2:]] == ["serve_overhead", "serve_overhead_2"]
    assert "2 streamed through a server on loopback" in outcome.err
    assert run_shoal("bench", "serve", MINI, "--overhead").code == 2


def test_a_prompt_on_the_miniature_is_extrapolated_and_the_other_width_is_said(run_shoal: RunShoal) -> None:
    outcome = run_shoal("bench", "prefill", MINI, "--tokens", 2, "--rounds", 1)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[-1].startswith("prefill_2 ")
    assert "says nothing about that model" in outcome.err


def test_loading_the_miniature_is_measured(run_shoal: RunShoal) -> None:
    outcome = run_shoal("bench", "load", MINI)
    assert outcome.code == 0, outcome.err
    assert [line.split()[0] for line in outcome.out.splitlines()[-3:]] == ["load_cold", "load_page_cache", "load_warm"]


def test_experts_and_rows_of_the_miniature_are_read(run_shoal: RunShoal) -> None:
    outcome = run_shoal("bench", "io", MINI)
    assert outcome.code == 0, outcome.err
    names = ["disk_probe", "expert_read", "engram_96", "engram_512"]
    assert [line.split()[0] for line in outcome.out.splitlines()[-4:]] == names
    assert "disk " in outcome.out.splitlines()[0]


def test_a_token_of_the_miniature_is_decoded_in_budgets(
    run_shoal: RunShoal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLD_TOKENS", "SETTLE_TOKENS"):
        monkeypatch.setattr(shoal.bench.budget, name, 1)
    file = tmp_path / "bench.json"
    sizes = "--memory", "1.1GiB", "--memory", "1.2GiB"
    outcome = run_shoal("bench", "decode", MINI, *sizes, "--tokens", 1, "--json", file)
    assert outcome.code == 0, outcome.err
    rows = json.loads(file.read_text())["results"]
    assert [row["name"] for row in rows] == ["decode_budget", "decode_budget: cold"] * 2
    assert [row["memory_nbytes"] for row in rows[::2]] == [int(1.1 * 2**30), int(1.2 * 2**30)]


@pytest.mark.parametrize(
    ("more", "code", "found"),
    [
        (("--memory", "1MiB"), 1, "the smallest budget that would do is"),
        (("--memory", "lots"), 1, "`lots` is not a size"),
        (("--memory", "2GiB", "--parts"), 2, "expected no `--memory`"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(run_shoal: RunShoal, more: tuple[str, ...], code: int, found: str) -> None:
    outcome = run_shoal("bench", "decode", MINI, *more)
    assert outcome.code == code
    assert found in " ".join(outcome.err.replace("│", " ").split())


@pytest.mark.parametrize("what", ["decode", "serve", "prefill", "load", "io"])
def test_a_directory_that_is_not_there_is_refused(run_shoal: RunShoal, tmp_path: Path, what: str) -> None:
    outcome = run_shoal("bench", what, tmp_path / "absent")
    assert outcome.code == 1
    assert "absent` is not a directory, wanted a checkpoint directory" in outcome.err
