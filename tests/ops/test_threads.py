"""The number of threads is what the affinity and the control groups leave."""

import os
from pathlib import Path

import pytest

from shoal.ops.threads import available_threads


class Machine:
    """Fake files of a kernel."""

    def __init__(self, root: Path) -> None:
        self.proc, self.cgroup = root / "proc", root / "cgroup"

    def put(self, path: str, text: str) -> None:
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def threads(self) -> int:
        return available_threads(self.proc, self.cgroup)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    return Machine(tmp_path)


def test_the_affinity_counts_where_there_are_no_control_groups(machine: Machine) -> None:
    assert machine.threads() == 8


@pytest.mark.parametrize(
    ("content", "threads"),
    [
        ("max 100000\n", 8),
        ("250000 100000\n", 3),
        ("200000 100000\n", 2),
        ("1000 100000\n", 1),
        ("9900000 100000\n", 8),
        ("0 100000\n", 8),
        ("100000 0\n", 8),
        ("garbage\n", 8),
        ("", 8),
    ],
)
def test_a_quota_of_version_2_rounds_up(machine: Machine, content: str, threads: int) -> None:
    machine.put("proc/self/cgroup", "0::/\n")
    machine.put("cgroup/cpu.max", content)
    assert machine.threads() == threads


@pytest.mark.parametrize("level", ["", "a", "a/b"])
def test_the_tightest_level_counts(machine: Machine, level: str) -> None:
    machine.put("proc/self/cgroup", "0::/a/b\n")
    for folder in ("", "a", "a/b"):
        machine.put(f"cgroup/{folder}/cpu.max", "200000 100000" if folder == level else "max 100000")
    assert machine.threads() == 2


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize(("quota", "threads"), [("150000", 2), ("-1", 8)])
def test_a_quota_of_version_1(machine: Machine, mount: str, quota: str, threads: int) -> None:
    machine.put("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a\n")
    machine.put(f"cgroup/{mount}/a/cpu.cfs_quota_us", f"{quota}\n")
    machine.put(f"cgroup/{mount}/a/cpu.cfs_period_us", "100000\n")
    assert machine.threads() == threads


def test_a_path_out_of_what_is_mounted_means_its_root(machine: Machine) -> None:
    machine.put("proc/self/cgroup", "0::/../other\n")
    machine.put("cgroup/cpu.max", "300000 100000")
    assert machine.threads() == 3


def test_this_machine_has_at_least_one() -> None:
    assert 1 <= available_threads() <= (os.cpu_count() or 1)
