import subprocess
import sys
from collections import namedtuple

import pytest

from shoal.errors import OptionError
from shoal.pull import preflight
from shoal.pull.receipts import Receipts

SHARD = "model-00005-of-00018.safetensors"
Usage = namedtuple("Usage", "free")


def test_nothing_is_written(pull) -> None:
    pull.plan()
    assert not pull.out.exists()


def test_a_plan_counts_what_is_here(pull, hub) -> None:
    pull.run()
    file = next(file for file in pull.plan().selected if file.path == SHARD)
    part = file.part_path(pull.out, "c" * 40)
    part.write_bytes((pull.out / SHARD).read_bytes()[:1000])
    (pull.out / SHARD).unlink()
    plan = pull.plan()
    assert [file.path for file in plan.missing] == [SHARD]
    assert plan.part_nbytes == {SHARD: 1000}
    assert plan.nbytes_to_fetch == len(hub.files[SHARD]) - 1000
    assert plan.nbytes == sum(map(len, hub.files.values()))


def test_space_is_asked_for_what_is_missing_only(pull, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = pull.plan().nbytes_to_fetch
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda place: Usage(wanted))
    pull.plan().check_space()
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda place: Usage(wanted - 2**20))
    with pytest.raises(OptionError, match=r"has 8\.084 MiB free, expected 9\.084 MiB for") as caught:
        pull.plan().check_space()
    assert caught.value.hint.startswith("free 1.000 MiB, choose another disk")
    monkeypatch.undo()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    pull.run()
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda place: Usage(0))
    pull.plan().check_space()


def test_a_changed_file_is_found_and_said(pull) -> None:
    pull.run()
    content = bytearray((pull.out / SHARD).read_bytes())
    content[-1] ^= 1
    (pull.out / SHARD).write_bytes(content)
    (pull.out / "README.md").write_bytes(b"longer than it was\n")
    plan = pull.plan()
    assert [file.path for file in plan.replaced] == ["README.md", SHARD]
    assert f"  differ   `README.md`, `{SHARD}`: replaced once the right bytes are here" in list(plan.lines())


def test_a_file_with_a_receipt_is_not_read_again(pull) -> None:
    pull.run()
    read: list[int] = []
    plan = pull.plan()
    preflight.plan(pull.out, plan.repository, plan.selected, Receipts(pull.out), read.append)
    assert read == []
    (pull.out / ".pull" / "verified.json").write_text("damaged")
    preflight.plan(pull.out, plan.repository, plan.selected, Receipts(pull.out), read.append)
    assert sum(read) == plan.nbytes


def test_other_kinds_of_files_are_refused(pull) -> None:
    (pull.out / SHARD).mkdir(parents=True)
    with pytest.raises(OptionError, match="is no regular file"):
        pull.plan()
    (pull.out / SHARD).rmdir()
    pull.out.rmdir()
    pull.out.write_bytes(b"")
    with pytest.raises(OptionError, match="is no directory"):
        pull.plan()


def test_packages_are_looked_for_and_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys, shoal.cli.pull; print([n for n in ('huggingface_hub', 'torch', 'numpy') if n in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
    assert preflight.absent_packages() == ()
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    assert preflight.absent_packages() == preflight.PACKAGES_TO_RUN
    with pytest.raises(OptionError, match="found no package `huggingface_hub`"):
        preflight.check_hub_package()


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0.00 GiB"), (475 * 2**30, "475.00 GiB"), (2**20, "1.000 MiB"), (2**30 // 100 + 1, "0.01 GiB")],
)
def test_sizes_are_read_in_gib(nbytes: int, text: str) -> None:
    assert preflight.in_gib(nbytes) == text
