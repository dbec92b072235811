from typing import Any

import pytest

from shoal.doctor.finding import Level
from shoal.doctor.processor import Processor, examine_processor, read_processor

XEON = "processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu avx512f avx2 amx_tile avx_vnni\n\n"
XEON += "processor\t: 1\nmodel name\t: Other\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd i8mm\nCPU part\t: 0xd0c\n"


def test_the_first_processor_is_named_with_what_matters(machine: Any) -> None:
    machine.put("proc/cpuinfo", XEON)
    assert read_processor(machine.proc) == Processor("Xeon", ("avx2", "avx_vnni", "avx512f", "amx_tile"))


def test_arm_spells_its_features_otherwise(machine: Any) -> None:
    machine.put("proc/cpuinfo", ARM)
    assert read_processor(machine.proc) == Processor("0xd0c", ("asimd", "i8mm"))


def test_nothing_known_is_said_to_be(machine: Any) -> None:
    first, _ = examine_processor(read_processor(machine.proc), ["portable"])
    assert first.text == "unknown: no instruction set that matters here"


@pytest.mark.parametrize(
    ("kernels", "level", "text"),
    [
        (["avx512", "avx2", "portable"], Level.OK, "`avx512` (avx2, portable run too)"),
        (["portable"], Level.WARNING, "only `portable` runs here, several times slower"),
        ([], Level.WARNING, "not built, so the slow torch reference runs"),
        (None, Level.WARNING, "not built, so the slow torch reference runs"),
    ],
)
def test_kernels_that_run_are_named_best_first(kernels: list[str] | None, level: Level, text: str) -> None:
    _, finding = examine_processor(Processor("X", ()), kernels)
    assert (finding.level, finding.text) == (level, text)
