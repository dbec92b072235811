from typing import Any

import pytest

from shoal.doctor.cores import Cores, affinity, examine_cores, read_cores
from shoal.doctor.finding import Level


def test_processors_are_counted_and_the_quota_read(machine: Any) -> None:
    machine.put("proc/cpuinfo", "".join(f"processor\t: {i}\nmodel name\t: X\n\n" for i in range(8)))
    machine.put("proc/self/cgroup", "0::/\n")
    machine.put_cgroup("cpu.max", "250000 100000")
    assert read_cores(machine.proc, machine.cgroup, {0, 1, 2, 3}) == Cores(8, 4, 2.5)


def test_without_cpuinfo_the_affinity_is_all_there_is(machine: Any) -> None:
    assert read_cores(machine.proc, machine.cgroup, {0, 1}) == Cores(2, 2, None)


@pytest.mark.parametrize(
    ("cores", "usable"),
    [
        (Cores(8, 8, None), 8),
        (Cores(8, 4, None), 4),
        (Cores(8, 4, 2.5), 2),
        (Cores(8, 4, 0.5), 1),
        (Cores(8, 4, 99), 4),
    ],
)
def test_usable_are_those_that_can_run_at_once(cores: Cores, usable: int) -> None:
    assert cores.usable == usable


@pytest.mark.parametrize(
    ("cores", "level", "part"),
    [
        (Cores(8, 8, None), Level.OK, "8 usable of 8"),
        (Cores(8, 8, 8.0), Level.OK, "8 usable of 8"),
        (Cores(8, 8, 2.5), Level.WARNING, "2 usable of 8: the control group gives 2.5"),
        (Cores(8, 2, None), Level.WARNING, "2 usable of 8: the affinity leaves out the rest"),
    ],
)
def test_less_than_the_machine_has_is_a_warning(cores: Cores, level: Level, part: str) -> None:
    finding = examine_cores(cores)
    assert finding.level is level
    assert part in finding.text


def test_this_process_may_run_somewhere() -> None:
    assert affinity()
