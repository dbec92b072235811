"""`shoal audit` prints the findings and the summary, and its exit code says whether to go on."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from miniature import MINI
from shoal.cli.audit import command
from shoal.errors import CheckpointError

NUM_SHARDS = 18

app = typer.Typer()
app.command("audit")(command)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def arriving(tmp_path: Path) -> Path:
    """The miniature without its last shard."""
    path = tmp_path / "arriving"
    path.mkdir()
    for file in MINI.glob("*.*"):
        if f"{NUM_SHARDS:05}-of" not in file.name:
            (path / file.name).symlink_to(file)
    return path


def test_a_whole_checkpoint_passes_and_the_last_line_sums_up() -> None:
    result = run(MINI, "--require-complete")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[-1] == "39/39 passed, 0 undecided, 0 failed; 1,568 of 1,568 tensors readable, 0.01 GiB"
    assert [line.split()[0] for line in lines[:-1]] == ["passed"] * 39


def test_what_has_not_arrived_is_named_and_fails_only_on_request(arriving: Path) -> None:
    result = run(arriving)
    assert result.exit_code == 0
    assert "waits for `model-00018-of-00018.safetensors`" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("35/39 passed, 4 undecided, 0 failed; 1,562 of 1,568")
    assert run(arriving, "--require-complete").exit_code == 1


def test_a_failure_shows_its_evidence_and_exits_with_1(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text((MINI / "config.json").read_text().replace('"n_routed_experts": 16', '"n_routed_experts": 17'))
    result = run(MINI, "--config", config)
    assert result.exit_code == 1
    assert "failed     experts.backbone" in result.stdout
    assert "`layers.0.ffn.experts.16.w1.weight` is in no shard" in result.stdout


def test_the_json_report_says_the_same(arriving: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    run(arriving, "--json", file)
    report = json.loads(file.read_text())
    assert report["counts"] == {"passed": 35, "failed": 0, "undecided": 4}
    assert len(report["checks"]) == 39
    waiting = [check for check in report["checks"] if check["verdict"] == "undecided"]
    assert {tuple(check["waits_for"]) for check in waiting} == {("model-00018-of-00018.safetensors",)}
    assert report["tensors"]["readable"] == 1562
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.json"]


def test_listed_tensors_come_first_between_tabs() -> None:
    lines = run(MINI, "--list-tensors", "layers.2.attn.compressor.*").stdout.splitlines()
    assert lines[0] == "\t".join(
        ("layers.2.attn.compressor.norm.weight", "BF16", "[64]", "128", "model-00005-of-00018.safetensors")
    )
    assert [line.split("\t")[0].rpartition("compressor.")[2] for line in lines if "\t" in line] == [
        *("norm.weight", "wgate.weight", "wkv.weight"),
    ]  # fmt: skip
    assert lines[-1].startswith("39/39 passed")


def test_another_dense_scale_block_may_be_demanded() -> None:
    assert run(MINI, "--expect-fp8-block", "32", "32").exit_code == 0
    result = run(MINI, "--expect-fp8-block", "128", "128")
    assert result.exit_code == 1
    assert "failed     packing.fp8-blocks" in result.stdout


def test_an_index_and_prefixes_may_be_given(tmp_path: Path) -> None:
    for file in MINI.glob("*.safetensors"):
        (tmp_path / file.stem.replace("model", "piece")).write_bytes(file.read_bytes()[:100_000])
    config, index = MINI / "config.json", MINI / "model.safetensors.index.json"
    assert run(tmp_path, "--config", config, "--header-prefix").stdout.splitlines()[-1].startswith("38/38 passed")
    result = run(tmp_path, "--config", config, "--header-prefix", "--index", index)
    assert result.stdout.splitlines()[-1].startswith("39/39 passed")


def test_a_directory_that_is_none_is_an_error_without_an_answer(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere", "--config", MINI)
    assert isinstance(result.exception, CheckpointError)
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", [(), (MINI, "--expect-fp8-block", "0", "32"), (MINI, "--no-such-option")])
def test_a_wrong_call_is_a_usage_error(arguments: tuple[str | Path, ...]) -> None:
    assert run(*arguments).exit_code == 2
