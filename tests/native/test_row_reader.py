"""The row reader driven from C++: callers in several threads, failures, ends, and no address or race that is wrong."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

SANITIZERS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}


def build(host: Any, *options: str) -> Path:
    native = Path(__file__).parent.parent.parent / "src/shoal/native"
    program: Path = host.program("row_reader_test", options, [native / "ring.cpp", native / "row_reader.cpp"])
    return program


@pytest.mark.parametrize("what", ["rows", "errors", "ends"])
def test_the_reader_keeps_its_promises(host: Any, what: str) -> None:
    host.run(build(host, "-O2"), what)


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("what", ["rows", "errors", "ends"])
def test_memory_and_threads_are_clean(host: Any, what: str, sanitizer: str, tmp_path: Path) -> None:
    if (what, sanitizer) == ("ends", "thread"):
        pytest.skip("the thread sanitizer does not follow the child of a fork that leaves threads behind")
    options = SANITIZERS[sanitizer]
    (tmp_path / "empty.cpp").write_text("int main() {}\n")
    command = [host.compiler, *options, tmp_path / "empty.cpp", "-o", tmp_path / "empty"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"the compiler has no {sanitizer} sanitizer")
    host.run(build(host, "-O1", "-g", *options), what)
