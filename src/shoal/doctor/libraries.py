"""Python and the packages: what is too old, what is missing, and which optional features are not installed."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from shoal.doctor.finding import Finding, ok, problem, warning

PACKAGE = "shoal"
OLDEST_PYTHON = (3, 11)
_FOR_DEVELOPERS = "dev"
VersionOf = Callable[[str], str | None]


@dataclass(frozen=True)
class Requirement:
    """A package, the oldest version that will do, and the optional feature that it belongs to, if any."""

    name: str
    oldest: str | None
    extra: str | None

    def unmet(self, found: str | None) -> str | None:
        """What is wrong with the version that was found; None when nothing is."""
        if found is None:
            return f"`{self.name}` is not installed"
        if self.oldest is not None and _numbers(found) < _numbers(self.oldest):
            return f"`{self.name}` is {found}, wanted {self.oldest} or newer"
        return None


def installed_requirements() -> list[Requirement] | None:
    """What the installed package says it needs; None where it runs from its source tree."""
    try:
        return parse_requirements(requires(PACKAGE) or [])
    except PackageNotFoundError:
        return None


def installed_version(name: str) -> str | None:
    """The version of a package; None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def parse_requirements(lines: Sequence[str]) -> list[Requirement]:
    """Requirements such as `torch>=2.10` and `pytest>=8; extra == "dev"`."""
    return [requirement for line in lines if (requirement := _parse(line)) is not None]


def _parse(line: str) -> Requirement | None:
    name = re.match(r"[A-Za-z0-9._-]+", line)
    specifier, _, marker = line.partition(";")
    oldest, extra = (
        re.search(r">=\s*([\w.]+)", specifier),
        re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", marker),
    )
    return Requirement(name[0], oldest and oldest[1], extra and extra[1]) if name else None


def examine_python(found: Sequence[int] = sys.version_info[:3]) -> Finding:
    """A problem for a Python that is too old."""
    text = ".".join(map(str, found))
    if tuple(found[:2]) < OLDEST_PYTHON:
        return problem("Python", text, f"use {'.'.join(map(str, OLDEST_PYTHON))} or newer")
    return ok("Python", text)


def examine_libraries(requirements: Sequence[Requirement] | None, version_of: VersionOf) -> Iterator[Finding]:
    """A problem for each package that is missing or too old, and a line for each optional feature."""
    if requirements is None:
        yield warning(
            "packages",
            f"`{PACKAGE}` runs from its source tree, so what it needs is not known",
            "`pip install .`",
        )
        return
    yield from _examine_required([one for one in requirements if one.extra is None], version_of)
    for extra in sorted({one.extra for one in requirements if one.extra} - {_FOR_DEVELOPERS}):
        yield _examine_extra(extra, [one for one in requirements if one.extra == extra], version_of)


def _examine_required(requirements: Sequence[Requirement], version_of: VersionOf) -> Iterator[Finding]:
    found = {one.name: version_of(one.name) for one in requirements}
    unmet = [text for one in requirements if (text := one.unmet(found[one.name])) is not None]
    yield from (problem("packages", text, f"`pip install --upgrade {PACKAGE}`") for text in unmet)
    if not unmet:
        yield ok("packages", ", ".join(f"{name} {text}" for name, text in found.items()) or "none needed")


def _examine_extra(extra: str, requirements: Sequence[Requirement], version_of: VersionOf) -> Finding:
    unmet = [text for one in requirements if (text := one.unmet(version_of(one.name))) is not None]
    if unmet:
        # Not wanting a feature is no fault of the machine.
        return ok(f"extra {extra}", f"{'; '.join(unmet)}: `pip install '{PACKAGE}[{extra}]'` if you want it")
    return ok(f"extra {extra}", "installed")


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers a version starts with, without trailing zeros: 2.13.0+cpu is (2, 13)."""
    found = re.match(r"\d+(\.\d+)*", text)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
