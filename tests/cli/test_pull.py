import os
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from miniature import MINI

pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed")

import huggingface_hub.utils

REPO = "shoal-tests/mini"
SHARD = "model-00005-of-00018.safetensors"
Usage = namedtuple("Usage", "free")


def _load_server() -> ModuleType:
    spec = spec_from_file_location("hub_server", Path(__file__).parents[1] / "pull" / "hub_server.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[object]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr("shoal.pull.download.FIRST_WAIT_SECONDS", 0.0)
    with _load_server().serving(MINI) as hub:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.endpoint)
        template = hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield hub
        huggingface_hub.utils.close_session()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def lines_of(err: str) -> list[str]:
    return [line for line in err.splitlines() if "so far" not in line]


def test_a_pull_shows_the_plan_the_shards_and_the_audit(run_shoal, hub, out: Path) -> None:
    code, stdout, err = run_shoal("pull", REPO, out)
    lines = lines_of(err)
    assert (code, stdout) == (0, f"{out}: {REPO} at {12 * 'c'}, 24 files, 9.084 MiB\n")
    assert lines[0] == f"{REPO} at {40 * 'c'}, into {out}"
    assert lines[1] == "  wanted   9.084 MiB: 18 shards and 6 other files of the 24 there are"
    assert lines[2] == "  here     0.00 GiB: 0 files checked"
    assert lines[3].startswith("  to fetch 9.084 MiB: 24 files; the disk has ")
    assert f"{SHARD}: 0.593 MiB, sha256 and header right, " in err
    assert lines[-1].startswith("audit: 39/39 passed, 0 undecided, 0 failed")
    assert (out / SHARD).read_bytes() == (MINI / SHARD).read_bytes()


def test_a_dry_run_prints_the_plan_and_writes_nothing(run_shoal, hub, out: Path) -> None:
    code, stdout, err = run_shoal("pull", REPO, out, "--dry-run", "--only", "draft")
    assert (code, err) == (0, "")
    assert "  wanted   1.530 MiB: 3 shards and 6 other files of the 24 there are" in stdout.splitlines()
    assert not out.exists()


def test_only_brings_the_shards_of_its_parts_and_adds_up(run_shoal, hub, out: Path) -> None:
    code, _, err = run_shoal("pull", REPO, out, "--only", "draft", "--only", "engram")
    assert code == 0
    assert sorted(int(path.name[6:11]) for path in out.glob("*.safetensors")) == [14, 15, 16, 17, 18]
    assert ", 0 failed; " in lines_of(err)[-1]
    code, _, err = run_shoal("pull", REPO, out, "--only", "text")
    assert (code, len(list(out.glob("*.safetensors")))) == (0, 17)


def test_a_revision_is_pulled(run_shoal, hub, out: Path) -> None:
    assert run_shoal("pull", REPO, out, "--revision", "v0", "--only", "vision", "--quiet").code == 0
    assert (out / "README.md").read_bytes() == b"old\n"


def test_what_is_missing_is_said_and_can_be_pulled_again(run_shoal, hub, out: Path) -> None:
    hub.corrupt.add(SHARD)
    code, stdout, err = run_shoal("pull", REPO, out, "--quiet")
    assert (code, stdout) == (1, "")
    assert err.startswith(f"error: `{SHARD}` arrived with the sha256 ")
    assert err.endswith(f"missing: 1 of 24 files, 0.593 MiB: {SHARD}\nrun the command again to fetch them\n")
    hub.corrupt.clear()
    assert run_shoal("pull", REPO, out, "--quiet")[::2] == (0, "")


def test_a_disk_that_is_too_small_is_said_before_the_first_byte(run_shoal, hub, out: Path, monkeypatch) -> None:
    monkeypatch.setattr("shoal.pull.preflight.shutil.disk_usage", lambda place: Usage(1 << 20))
    code, stdout, err = run_shoal("pull", REPO, out)
    assert (code, stdout) == (1, "")
    assert f"error: `{out}` has 1.000 MiB free, expected " in err
    assert not out.exists() and hub.requests == []


@pytest.mark.parametrize("name", ["shoal-tests/nothing", "shoal-tests/private", "shoal-tests/gated"])
def test_a_repository_that_cannot_be_had_is_one_sentence(run_shoal, hub, out: Path, name: str) -> None:
    code, stdout, err = run_shoal("pull", name, out)
    assert (code, stdout) == (1, "") and err.startswith("error: ") and name in err
    assert "hf auth login" in err and not out.exists()


def test_the_repository_may_be_left_out(run_shoal, hub, out: Path) -> None:
    assert "found no repository `deepseek-ai/DeepSeek-V4.1-Flash`" in run_shoal("pull", out).err


def test_absent_packages_are_noticed_before_hours(run_shoal, hub, out: Path, monkeypatch) -> None:
    monkeypatch.setattr("shoal.cli.pull.absent_packages", lambda: ("torch", "numpy"))
    err = run_shoal("pull", REPO, out, "--only", "vision").err
    assert "warning: running the model here will need `torch`, `numpy`, not installed yet" in lines_of(err)
    monkeypatch.setattr("shoal.pull.preflight.find_spec", lambda name: None)
    assert run_shoal("pull", REPO, out).err.startswith("error: found no package `huggingface_hub`")


@pytest.mark.parametrize("arguments", [[], ["a", "b", "c"], ["a", "b", "--only", "audio"], ["a", "--connections", "0"]])
def test_wrong_usage_exits_with_2(run_shoal, arguments: list[str]) -> None:
    assert run_shoal("pull", *arguments).code == 2


def test_ctrl_c_ends_at_once_and_the_next_run_goes_on(run_shoal, hub, out: Path, tmp_path: Path) -> None:
    hub.stalled = threading.Event()
    environment = os.environ | {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path), "HF_HUB_DOWNLOAD_TIMEOUT": "1"}
    command = [sys.executable, "-m", "shoal.cli", "pull", REPO, str(out)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert hub.stalled.wait(60)
        child.send_signal(signal.SIGINT)
        stdout, err = child.communicate(timeout=30)
    assert (child.returncode, stdout) == (130, "")
    assert lines_of(err)[-1] == "interrupted; what has arrived is kept, run the command again to go on"
    assert "Traceback" not in err
    assert not list(out.glob("*.safetensors")) and list((out / ".pull").glob("*.part"))
    hub.stalled = None
    hub.release.set()
    hub.requests.clear()
    assert run_shoal("pull", REPO, out, "--quiet").code == 0
    assert any(wanted and not wanted.startswith("bytes=0-") for _, wanted in hub.requests)
