"""The thread pool driven from C++: races, forks, working room, a machine without threads to give, a busy neighbour."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ALLOCATIONS_COUNTED = "-Wl,--wrap=posix_memalign"
SLOWDOWN = 2.3


def build(host: Any, *options: str) -> Path:
    pool = Path(__file__).parent.parent.parent / "src/shoal/native/pool.cpp"
    objects = [host.compile(source, options) for source in (Path(__file__).with_name("pool_test.cpp"), pool)]
    return host.link("pool_test", objects, [*options, ALLOCATIONS_COUNTED])


@pytest.mark.parametrize("what", ["stress", "fork", "scratch", "starved"])
def test_the_pool_keeps_its_promises(host: Any, what: str) -> None:
    host.run(build(host, "-O2"), what)


@pytest.mark.parametrize("what", ["stress", "scratch"])
def test_threads_do_not_race(host: Any, what: str, tmp_path: Path) -> None:
    (tmp_path / "empty.cpp").write_text("int main() {}\n")
    command = [host.compiler, "-fsanitize=thread", tmp_path / "empty.cpp", "-o", tmp_path / "empty"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("the compiler has no thread sanitizer")
    host.run(build(host, "-O1", "-g", "-fsanitize=thread"), what)


@pytest.mark.slow
def test_a_busy_neighbour_does_not_stall_a_region(host: Any) -> None:
    # Best of several, for the neighbours that the test did not start.
    program = build(host, "-O2")
    alone = min(float(host.run(program, "region").split()[0]) for _ in range(3))
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as neighbour:
        try:
            beside = min(float(host.run(program, "region").split()[0]) for _ in range(3))
        finally:
            neighbour.kill()
    assert beside <= SLOWDOWN * alone
