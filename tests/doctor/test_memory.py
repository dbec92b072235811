from typing import Any

import pytest

from shoal.doctor.control_group import MemoryLimit
from shoal.doctor.finding import Level
from shoal.doctor.memory import Memory, examine_huge_pages, examine_memory, read_memory
from shoal.errors import OptionError

GIB = 1 << 30


def test_it_is_what_meminfo_and_the_group_say(machine: Any) -> None:
    machine.put("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 800 kB\n")
    machine.put("proc/self/cgroup", "0::/\n")
    machine.put_cgroup("memory.max", "409600\n")
    found = read_memory(machine.proc, machine.cgroup)
    assert found == Memory(1000 * 1024, 800 * 1024, MemoryLimit(400 * 1024, 400 * 1024))
    assert found.usable == 400 * 1024


def test_a_kernel_that_does_not_say_is_an_error_that_names_the_option(machine: Any) -> None:
    with pytest.raises(OptionError, match="meminfo` does not state the free memory") as caught:
        read_memory(machine.proc, machine.cgroup)
    assert caught.value.hint is not None and "`--memory`" in caught.value.hint


@pytest.mark.parametrize(
    ("memory", "level", "advice"),
    [
        (Memory(64 * GIB, 60 * GIB, None), Level.OK, None),
        (Memory(64 * GIB, 60 * GIB, MemoryLimit(32 * GIB, 20 * GIB)), Level.OK, None),
        (Memory(8 * GIB, 7 * GIB, None), Level.PROBLEM, "use a machine with more"),
        (Memory(64 * GIB, 7 * GIB, None), Level.PROBLEM, "end other programs"),
        (
            Memory(64 * GIB, 60 * GIB, MemoryLimit(8 * GIB, 8 * GIB)),
            Level.PROBLEM,
            "raise the limit of the control group",
        ),
        (Memory(64 * GIB, 60 * GIB, MemoryLimit(32 * GIB, 8 * GIB)), Level.PROBLEM, "end other programs"),
    ],
)
def test_less_than_the_model_needs_is_a_problem_with_its_remedy(
    memory: Memory, level: Level, advice: str | None
) -> None:
    finding = examine_memory(memory, 10 * GIB)
    assert finding.level is level
    assert (finding.advice or "").startswith(advice or "")
    assert ("the model needs 10.00 GiB" in finding.text) == (level is Level.PROBLEM)


@pytest.mark.parametrize(
    ("content", "level", "text"),
    [
        ("always [madvise] never\n", Level.OK, "madvise"),
        ("[always] madvise never\n", Level.OK, "always"),
        ("always madvise [never]\n", Level.WARNING, "never"),
        (None, Level.WARNING, "this kernel has none"),
    ],
)
def test_huge_pages_must_not_be_off(machine: Any, content: str | None, level: Level, text: str) -> None:
    if content is not None:
        machine.put("sys/kernel/mm/transparent_hugepage/enabled", content)
    finding = examine_huge_pages(machine.sys)
    assert (finding.level, finding.text) == (level, text)
