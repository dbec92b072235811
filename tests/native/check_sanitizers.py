"""`kernels_test` under the address and undefined-behaviour sanitizers. Run by `make check`: minutes of compiling."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from shoal._native import isas

CHECKED = [isa for isa in isas() if isa in ("avx2", "neon", "portable")]
SANITIZERS = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
STRICT = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@pytest.fixture(scope="session")
def sanitized(host: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("sanitizers") / "empty.cpp"
    source.write_text("int main() {}\n")
    command = [host.compiler, *SANITIZERS, source, "-o", source.with_suffix("")]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("the compiler has no address and undefined-behaviour sanitizers")
    return host.kernels_test(CHECKED, SANITIZERS)


@pytest.mark.parametrize("isa", CHECKED)
def test_memory_and_behaviour_are_clean(host: Any, sanitized: Path, isa: str) -> None:
    assert host.run(sanitized, isa, "2", **STRICT) == host.run(sanitized, "portable", "1", **STRICT)
