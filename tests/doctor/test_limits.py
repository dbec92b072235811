import pytest

from shoal.doctor.finding import Level
from shoal.doctor.limits import NAMES, examine_limits, read_limits

GIB = 1 << 30
UNLIMITED: dict[str, int | None] = dict.fromkeys(NAMES)


def test_no_limit_is_ok_and_every_limit_is_said() -> None:
    (finding,) = examine_limits(UNLIMITED | {"open files": 1024}, mapped=475 * GIB, resident=10 * GIB, shards=48)
    assert finding.level is Level.OK
    assert finding.text == "address space unlimited, data unlimited, locked memory unlimited, open files 1,024"


@pytest.mark.parametrize(
    ("name", "enough", "letter"),
    [("address space", 485 * GIB, "v"), ("data", 10 * GIB, "d"), ("open files", 112, "n")],
)
def test_a_limit_one_too_low_is_a_problem_that_names_ulimit(name: str, enough: int, letter: str) -> None:
    for limit, level in ((enough, Level.OK), (enough - 1, Level.PROBLEM)):
        (finding,) = examine_limits(UNLIMITED | {name: limit}, mapped=475 * GIB, resident=10 * GIB, shards=48)
        assert finding.level is level
    assert finding.text.startswith(f"{name} is limited to ")
    assert finding.advice is not None and f"`ulimit -{letter} unlimited`" in finding.advice


def test_each_limit_that_is_too_low_has_its_line() -> None:
    findings = examine_limits(dict.fromkeys(NAMES, 1), mapped=2, resident=2, shards=1)
    assert len(findings) == 3  # nothing is locked


def test_those_of_this_process_can_be_read() -> None:
    assert list(read_limits()) == list(NAMES)
