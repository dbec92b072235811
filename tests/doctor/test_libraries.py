import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from shoal.doctor.finding import Level
from shoal.doctor.libraries import (
    OLDEST_PYTHON,
    Requirement,
    examine_libraries,
    examine_python,
    installed_version,
    parse_requirements,
)

LINES = ["torch>=2.10", "numpy>=2.0", 'fastapi>=0.110; extra == "serve"', "pytest>=8; extra == 'dev'", "plain"]
REQUIREMENTS = parse_requirements(LINES)
GOOD = {"torch": "2.13.0+cpu", "numpy": "2", "fastapi": "0.115.2", "plain": "0"}


def test_requirements_are_read_as_metadata_states_them() -> None:
    assert [
        Requirement("torch", "2.10", None),
        Requirement("numpy", "2.0", None),
        Requirement("fastapi", "0.110", "serve"),
        Requirement("pytest", "8", "dev"),
        Requirement("plain", None, None),
    ] == REQUIREMENTS
    assert parse_requirements(["", ">=2"]) == []


def test_all_there_is_ok_and_developers_tools_are_nobody_s_business() -> None:
    findings = list(examine_libraries(REQUIREMENTS, GOOD.get))
    assert [finding.line() for finding in findings] == [
        "[ok] packages: torch 2.13.0+cpu, numpy 2, plain 0",
        "[ok] extra serve: installed",
    ]


@pytest.mark.parametrize(
    ("name", "version", "text"),
    [
        ("torch", None, "`torch` is not installed"),
        ("torch", "2.9.1", "`torch` is 2.9.1, wanted 2.10 or newer"),  # 9 < 10, though not as text
        ("numpy", "1.26", "`numpy` is 1.26, wanted 2.0 or newer"),
    ],
)
def test_missing_or_old_is_a_problem(name: str, version: str | None, text: str) -> None:
    found = {**GOOD, name: version}
    first, *_ = examine_libraries(REQUIREMENTS, found.get)
    assert (first.level, first.text) == (Level.PROBLEM, text)


def test_a_missing_extra_is_said_with_its_command() -> None:
    *_, extra = examine_libraries(REQUIREMENTS, {**GOOD, "fastapi": None}.get)
    assert extra.level is Level.OK
    assert extra.text == "`fastapi` is not installed: `pip install 'shoal[serve]'` if you want it"


def test_a_source_tree_cannot_say_what_it_needs() -> None:
    (finding,) = examine_libraries(None, GOOD.get)
    assert finding.level is Level.WARNING


@pytest.mark.parametrize(
    ("found", "level"), [((3, 11, 0), Level.OK), ((3, 14, 1), Level.OK), ((3, 10, 9), Level.PROBLEM)]
)
def test_an_old_python_is_a_problem(found: Sequence[int], level: Level) -> None:
    assert examine_python(found).level is level


def test_the_oldest_python_is_the_project_s() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]}"
    assert all(requirement.oldest for requirement in parse_requirements(project["dependencies"]))


def test_versions_of_what_is_there_and_of_what_is_not() -> None:
    assert installed_version("torch")
    assert installed_version("no-such-package-anywhere") is None
