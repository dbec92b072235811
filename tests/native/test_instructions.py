"""Objects hold no instruction that the processors they are for lack, and nothing the linker would share among them."""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the instructions of x86-64"),
    pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump"),
]

# In 64-bit mode these first bytes mean nothing else.
EVEX, VEX = {"62"}, {"c4", "c5"}
AVX512_ONLY = re.compile(r"%zmm|%k[0-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b")
LINE = re.compile(r"\s*[0-9a-f]+:\t([0-9a-f]{2})[0-9a-f ]*\t(.*)")


def instructions(host: Any, isa: str) -> Iterator[tuple[str, str]]:
    """First byte and text of each."""
    for path in host.kernel_objects(isa):
        command = ["objdump", "-d", "--insn-width=16", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        yield from (match.groups() for line in done.stdout.splitlines() if (match := LINE.match(line)))


@pytest.mark.parametrize(("isa", "dot_products"), [("avx2", False), ("avxvnni", True)])
def test_avx2_objects_hold_no_avx512(host: Any, isa: str, dot_products: bool) -> None:
    found = list(instructions(host, isa))
    assert sum(byte in VEX for byte, _ in found) > 100
    assert [text for byte, text in found if byte in EVEX or AVX512_ONLY.search(text)] == []
    if not dot_products:
        assert [text for _, text in found if "vpdp" in text] == []


def test_portable_objects_hold_no_avx(host: Any) -> None:
    found = list(instructions(host, "portable"))
    assert len(found) > 1000
    assert [text for byte, text in found if byte in EVEX | VEX or "%ymm" in text or "%zmm" in text] == []


@pytest.mark.parametrize("isa", ["avxvnni", "avx2", "portable"])
def test_objects_share_no_inline_function(host: Any, isa: str) -> None:
    # The linker keeps one copy of a shared one, for whichever instruction set it was built.
    for path in host.kernel_objects(isa):
        names = subprocess.run(["nm", "--defined-only", str(path)], capture_output=True, text=True, check=True).stdout
        assert [line for line in names.splitlines() if line.split()[1] in "uvVwW"] == []
