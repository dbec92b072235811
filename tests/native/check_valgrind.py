"""`kernels_test` under valgrind, which knows AVX2 but not AVX-512. Run by `make check`; too slow for the suite."""

import shutil
from typing import Any

import pytest

from shoal._native import isas

VALGRIND = ("valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", "--track-origins=yes")


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
@pytest.mark.parametrize("isa", [isa for isa in isas() if isa in ("avx2", "portable")])
def test_no_memory_is_misread(host: Any, isa: str) -> None:
    known = [isa for isa in isas() if isa in ("avx2", "portable")]
    program = host.kernels_test(known, ["-g"])
    assert host.run(program, isa, "2", runner=VALGRIND) == host.run(program, "portable", "1")
