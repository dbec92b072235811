"""`shoal plan` as a user meets it."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from miniature import MINI
from shoal.cli import plan
from shoal.doctor.memory import Memory
from shoal.errors import ConfigError, OptionError
from shoal.plan.disk_probe import DiskRate
from shoal.plan.memory_probe import MemoryRate

RELEASE = Path(__file__).parents[1] / "data" / "release"

app = typer.Typer()
app.command("plan")(plan.command)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that measures 40 GB/s, 2 GB/s and 300 GFLOP/s."""
    monkeypatch.setattr(plan, "measure_memory", lambda threads, nbytes: MemoryRate(40e9, 1.0))
    monkeypatch.setattr(plan, "measure_disk", lambda shards: DiskRate(2e9, True))
    monkeypatch.setattr(plan, "measure_arithmetic", lambda: 300e9)


@pytest.mark.parametrize("memory", ["24GiB", "64G", "128GiB", "256GiB", "512GiB"])
def test_a_config_alone_gives_the_plan_of_its_checkpoint(memory: str) -> None:
    alone, checkpoint = run("--config", RELEASE / "config.json", "--memory", memory), run(RELEASE, "--memory", memory)
    assert alone.exit_code == checkpoint.exit_code == 0
    assert alone.stdout == checkpoint.stdout
    assert alone.stderr == ""
    assert alone.stdout.startswith("40 layers + 3 draft, dim 5120, ")
    assert "assumed, not measured" in alone.stdout


def test_what_does_not_fit_is_named_with_the_smallest_budget_that_does() -> None:
    result = run(RELEASE, "--memory", "8GiB")
    assert isinstance(result.exception, OptionError)
    assert "the dense weights" in result.exception.message
    assert "the smallest budget that would do is 9.82 GiB" in result.exception.message
    assert result.stdout == ""


def test_without_memory_the_budget_is_a_runs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "read_memory", lambda proc, cgroup: Memory(64 << 30, 32 << 30, None))
    assert "with 30.40 GiB of memory" in run(RELEASE).stdout


def test_given_bandwidths_are_used_and_said_to_be_given() -> None:
    out = run(RELEASE, "--memory", "512G", "--memory-bandwidth", "460", "--disk-bandwidth", "12.5").stdout
    assert "460.00 GB/s     given" in out
    assert "12.50 GB/s     given" in out
    assert "/ (0.80 x 460.00)" in out


@pytest.mark.usefixtures("probes")
def test_measured_rates_are_used_and_said_to_be_measured() -> None:
    result = run(MINI, "--memory", "2G", "--measure")
    assert result.stderr == ""
    assert [line.split()[1:] for line in result.stdout.splitlines() if line.endswith("measured")] == [
        ["40.00", "GB/s", "measured"],
        ["2.00", "GB/s", "measured"],
        ["300.00", "GFLOP/s", "measured"],
    ]


@pytest.mark.usefixtures("probes")
def test_what_cannot_be_measured_is_assumed_and_said_so_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "measure_arithmetic", lambda: None)
    result = run("--config", RELEASE, "--memory", "64G", "--measure")
    assert result.stderr.splitlines() == [
        "arithmetic is assumed, not measured: torch is not installed",
        "disk is assumed, not measured: there is no shard to read",
    ]


@pytest.mark.usefixtures("probes")
def test_holes_are_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_holes(shards: object) -> DiskRate:
        raise OptionError("only holes")

    monkeypatch.setattr(plan, "measure_disk", only_holes)
    assert "disk is assumed, not measured: only holes" in run(MINI, "--memory", "2G", "--measure").stderr


@pytest.mark.usefixtures("probes")
def test_what_is_given_is_not_measured() -> None:
    out = run(MINI, "--memory", "2G", "--measure", "--memory-bandwidth", "1", "--disk-bandwidth", "1").stdout
    assert out.count("1.00 GB/s     given") == 2


def test_json_goes_to_the_file_and_the_plan_to_stdout(tmp_path: Path) -> None:
    result = run(RELEASE, "--memory", "64G", "--context", "4096", "--sequences", "4", "--json", tmp_path / "plan.json")
    assert "4 sequences of 4,096 tokens" in result.stdout
    content = json.loads((tmp_path / "plan.json").read_text())
    assert (content["memory_nbytes"], content["context"], content["sequences"]) == (64 << 30, 4096, 4)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--memory", "many"), ("--memory-bandwidth", "nan"), ("--disk-bandwidth", "-1"), ("--context", "9999999")],
)
def test_values_that_mean_nothing_are_refused(option: str, value: str) -> None:
    result = run(RELEASE, *(() if option == "--memory" else ("--memory", "64G")), option, value)
    assert isinstance(result.exception, OptionError)
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", [[], [RELEASE, "--config", RELEASE], [RELEASE, "--sequences", "0"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str | Path]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_config_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    content = json.loads((RELEASE / "inference" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(content | {"n_heads": 60}))
    result = run(tmp_path, "--memory", "64G")
    assert isinstance(result.exception, ConfigError)
    assert "`n_heads` is 60" in result.exception.message
