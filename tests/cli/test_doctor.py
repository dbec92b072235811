"""`shoal doctor` on fake machines: a line each, exit 1 on a problem."""

import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from miniature import MINI
from shoal.cli import doctor
from shoal.errors import CheckpointError, OptionError
from shoal.plan.disk_probe import DiskRate
from shoal.plan.memory_probe import MemoryRate

app = typer.Typer()
app.command("doctor")(doctor.command)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A good one: 64 GiB, two processors, an NVMe disk."""
    files = {
        "proc/meminfo": f"MemTotal: {64 << 20} kB\nMemAvailable: {60 << 20} kB\n",
        "proc/cpuinfo": "processor : 0\nmodel name : Fast\nflags : avx2\n\nprocessor : 1\n",
        "proc/self/mountinfo": "1 1 259:0 / / rw - ext4 /dev/nvme0n1 rw\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "sys/dev/block/259:0/queue/rotational": "0",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(doctor, "PROC", tmp_path / "proc")
    monkeypatch.setattr(doctor, "SYS", tmp_path / "sys")
    monkeypatch.setattr(doctor, "CGROUP", tmp_path / "sys" / "fs" / "cgroup")
    monkeypatch.setattr(doctor, "affinity", lambda: {0, 1})
    monkeypatch.setattr(doctor, "read_limits", dict)
    monkeypatch.setattr(doctor, "_kernels", lambda: ["avx2", "portable"])
    monkeypatch.setattr(doctor, "measure_memory", lambda threads, nbytes: MemoryRate(33e9, 0.99))
    monkeypatch.setattr(doctor, "measure_disk", lambda shards: DiskRate(2.2e9, True))
    monkeypatch.setattr(doctor, "installed_requirements", list)
    return tmp_path


@pytest.mark.usefixtures("machine")
def test_a_good_machine_is_all_ok() -> None:
    result = run(MINI)
    assert result.exit_code == 0, result.stdout
    assert result.stderr == ""
    *lines, last = result.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "[ok] processor",
        "[ok] native kernels",
        "[ok] cores",
        "[ok] limits",
        "[ok] huge pages",
        "[ok] memory",
        "[ok] memory bandwidth",
        "[ok] disk",
        "[ok] space",
        "[ok] disk bandwidth",
        "[ok] Python",
        "[ok] packages",
    ]
    assert last == "12 ok, 0 warnings, 0 problems"


@pytest.mark.usefixtures("machine")
def test_without_a_checkpoint_it_judges_by_the_release_and_looks_at_no_disk() -> None:
    out = run().stdout
    assert "a token reads 13.0" in out
    assert "[ok] disk: not examined" in out


def test_too_little_memory_is_a_problem_and_exit_code_1(machine: Path) -> None:
    (machine / "proc" / "meminfo").write_text(f"MemTotal: {8 << 20} kB\nMemAvailable: {7 << 20} kB\n")
    result = run()
    assert result.exit_code == 1
    assert "[problem] memory: 7.00 GiB usable" in result.stdout
    assert result.stdout.endswith("1 problem\n")


def test_a_warning_alone_is_exit_code_0(machine: Path) -> None:
    (machine / "sys/kernel/mm/transparent_hugepage/enabled").write_text("always madvise [never]")
    result = run()
    assert result.exit_code == 0
    assert "[warning] huge pages: never; as root: `echo madvise" in result.stdout


def test_a_kernel_that_states_no_memory_is_a_warning(machine: Path) -> None:
    (machine / "proc" / "meminfo").unlink()
    assert "[warning] memory: " in run().stdout


def test_an_incomplete_checkpoint_must_fit_beside_what_is_there(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    shutil.copy(MINI / "config.json", checkpoint)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 20))
    result = run(checkpoint)
    assert result.exit_code == 1
    assert "[problem] space: " in result.stdout


@pytest.mark.usefixtures("machine")
def test_a_disk_that_cannot_be_measured_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_holes(shards: object) -> DiskRate:
        raise OptionError("only holes")

    monkeypatch.setattr(doctor, "measure_disk", only_holes)
    assert "[warning] disk bandwidth: only holes" in run(MINI).stdout


@pytest.mark.usefixtures("machine")
def test_a_directory_without_a_config_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = run(tmp_path / "empty")
    assert result.exit_code == 1
    assert "[problem] config: " in result.stdout
    assert "judged by the released model's" in result.stdout


@pytest.mark.usefixtures("machine")
def test_shards_that_are_links_are_looked_up_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, elsewhere = tmp_path / "snapshot", tmp_path / "blobs"
    checkpoint.mkdir()
    shutil.copytree(MINI, elsewhere)
    for file in elsewhere.iterdir():
        (checkpoint / file.name).symlink_to(file)
    seen: list[Path] = []
    read_disk = doctor.read_disk
    monkeypatch.setattr(doctor, "read_disk", lambda path, proc, sys: seen.append(path) or read_disk(path, proc, sys))
    assert "there" in run(checkpoint).stdout
    assert seen == [elsewhere]


def test_what_is_no_directory_is_a_checkpoint_error(tmp_path: Path) -> None:
    result = run(tmp_path / "absent")
    assert isinstance(result.exception, CheckpointError)
    assert result.stdout == ""


def test_the_kernels_of_this_build_are_named_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_ISA", "portable")
    kernels = doctor._kernels()
    assert kernels is None or kernels[0] == "portable"
