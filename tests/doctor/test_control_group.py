"""Limits of both versions, at any level above the process, in and out of containers."""

from typing import Any

import pytest

from shoal.doctor.control_group import MemoryLimit, memory_limit, processor_quota

MACHINE = Any


def test_without_groups_there_is_no_limit(machine: MACHINE) -> None:
    assert memory_limit(machine.proc, machine.cgroup) is None
    assert processor_quota(machine.proc, machine.cgroup) is None


def test_version_2_states_limit_use_and_reclaimable_cache(machine: MACHINE) -> None:
    machine.put("proc/self/cgroup", "0::/user/job\n")
    machine.put_cgroup("user/job/memory.max", "1000\n")
    machine.put_cgroup("user/job/memory.current", "700\n")
    machine.put_cgroup("user/job/memory.stat", "anon 300\ninactive_file 400\n")
    assert memory_limit(machine.proc, machine.cgroup) == MemoryLimit(1000, 700)


@pytest.mark.parametrize(("high", "least"), [("600\n", 600), ("max\n", 1000), ("2000\n", 1000)])
def test_where_a_group_is_slowed_down_its_memory_ends(machine: MACHINE, high: str, least: int) -> None:
    machine.put("proc/self/cgroup", "0::/job\n")
    machine.put_cgroup("job/memory.max", "1000\n")
    machine.put_cgroup("job/memory.high", high)
    machine.put_cgroup("job/memory.current", "100\n")
    assert memory_limit(machine.proc, machine.cgroup) == MemoryLimit(least, least - 100)


def test_the_tightest_level_counts(machine: MACHINE) -> None:
    machine.put("proc/self/cgroup", "0::/outer/inner\n")
    machine.put_cgroup("outer/inner/memory.max", "max\n")
    machine.put_cgroup("outer/memory.max", "500\n")
    machine.put_cgroup("memory.max", "900\n")
    machine.put_cgroup("outer/inner/cpu.max", "400000 100000\n")
    machine.put_cgroup("outer/cpu.max", "150000 100000\n")
    assert memory_limit(machine.proc, machine.cgroup) == MemoryLimit(500, 500)
    assert processor_quota(machine.proc, machine.cgroup) == 1.5


def test_version_1_has_a_tree_for_each_controller(machine: MACHINE) -> None:
    machine.put("proc/self/cgroup", "9:memory:/job\n4:cpu,cpuacct:/job\n0::/\n")
    machine.put_cgroup("memory/job/memory.limit_in_bytes", "1000\n")
    machine.put_cgroup("memory/job/memory.usage_in_bytes", "600\n")
    machine.put_cgroup("memory/job/memory.stat", "total_inactive_file 100\n")
    machine.put_cgroup("cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n")
    machine.put_cgroup("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n")
    assert memory_limit(machine.proc, machine.cgroup) == MemoryLimit(1000, 500)
    assert processor_quota(machine.proc, machine.cgroup) == 2.5


@pytest.mark.parametrize("quota", ["max 100000", "-1", "0 100000", "100000 0", "nonsense"])
def test_no_quota_is_none(machine: MACHINE, quota: str) -> None:
    machine.put("proc/self/cgroup", "0::/\n1:cpu:/\n")
    machine.put_cgroup("cpu.max", quota)
    machine.put_cgroup("cpu/cpu.cfs_quota_us", "-1")
    machine.put_cgroup("cpu/cpu.cfs_period_us", "100000")
    assert processor_quota(machine.proc, machine.cgroup) is None


def test_version_1_says_no_limit_by_a_huge_one(machine: MACHINE) -> None:
    machine.put("proc/self/cgroup", "9:memory:/\n")
    machine.put_cgroup("memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_limit(machine.proc, machine.cgroup) is None


def test_in_a_container_the_path_outside_is_not_there_but_the_root_is_the_group(machine: MACHINE) -> None:
    for path in ("/docker/abc", "/../../other", "/"):
        machine.put("proc/self/cgroup", f"0::{path}\n")
        machine.put_cgroup("memory.max", "800\n")
        assert memory_limit(machine.proc, machine.cgroup) == MemoryLimit(800, 800)


def test_no_path_leads_out_of_what_is_mounted(machine: MACHINE) -> None:
    machine.put("proc/self/cgroup", "0::/../outside\n")
    machine.put("sys/fs/outside/memory.max", "1\n")
    assert memory_limit(machine.proc, machine.cgroup) is None


def test_more_in_use_than_allowed_leaves_nothing(machine: MACHINE) -> None:
    machine.put("proc/self/cgroup", "0::/\n")
    machine.put_cgroup("memory.max", "800\n")
    machine.put_cgroup("memory.current", "900\n")
    assert memory_limit(machine.proc, machine.cgroup) == MemoryLimit(800, 0)
