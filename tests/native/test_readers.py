"""The readers of rows and pages driven from C++: several threads, failures, ends, and no address or race is wrong."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

SANITIZERS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}


def build(host: Any, name: str, *options: str) -> Path:
    native = Path(__file__).parent.parent.parent / "src/shoal/native"
    more = ["row_store"] if name == "row_reader" else []
    program: Path = host.program(f"{name}_test", options, [native / f"{each}.cpp" for each in ("ring", name, *more)])
    return program


def options_of(host: Any, sanitizer: str, directory: Path) -> tuple[str, ...]:
    """How to build with it, where the compiler can."""
    options = SANITIZERS[sanitizer]
    (directory / "empty.cpp").write_text("int main() {}\n")
    command = [host.compiler, *options, directory / "empty.cpp", "-o", directory / "empty"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        # No sanitizer: at least they keep their promises.
        return ("-O2",)
    return ("-O0", "-g1", *options)


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("what", ["rows", "errors", "ends", "store"])
def test_memory_and_threads_are_clean(host: Any, what: str, sanitizer: str, tmp_path: Path) -> None:
    if (what, sanitizer) == ("ends", "thread"):
        pytest.skip("the thread sanitizer does not follow the child of a fork that leaves threads behind")
    host.run(build(host, "row_reader", *options_of(host, sanitizer, tmp_path)), what)


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_pages_come_whole_and_cleanly(host: Any, sanitizer: str, tmp_path: Path) -> None:
    host.run(build(host, "page_reader", *options_of(host, sanitizer, tmp_path)))
