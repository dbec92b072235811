"""Operators have the same bits in every table: the dumps of `kernels_test` are equal."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from shoal._native import isas

ISAS = isas()


@pytest.fixture(scope="session")
def program(host: Any) -> Path:
    return host.kernels_test(ISAS)


@pytest.fixture(scope="session")
def portable(host: Any, program: Path) -> str:
    return host.run(program, "portable", "1")


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("isa", ISAS)
def test_every_table_and_number_of_threads_gives_the_same(
    host: Any, program: Path, isa: str, threads: str, portable: str
) -> None:
    assert host.run(program, isa, threads) == portable


def test_every_operator_is_driven(host: Any, program: Path, portable: str) -> None:
    driven = {line.split()[0] for line in portable.splitlines()}
    assert driven == set(host.run(program, "--operators").split())


def test_the_driver_offers_what_the_module_does(host: Any, program: Path) -> None:
    assert host.run(program, "--isas").split() == ISAS


# No instruction that this machine lacks is left in what is emulated.
NO_AVX512 = ("-mno-avx512f", "-Wno-psabi")


@pytest.mark.slow
@pytest.mark.skipif("avx2" not in ISAS or "avx512" in ISAS, reason="a processor without AVX2, or with AVX-512 itself")
def test_avx512_emulated_gives_the_same(host: Any, portable: str) -> None:
    program = host.emulating("avx512", "emulated_avx512.h", [], NO_AVX512)
    assert host.run(program, "avx512", "2") == portable


@pytest.mark.slow
@pytest.mark.skipif("avx2" not in ISAS or "avxvnni" in ISAS, reason="a processor without AVX2, or with AVX-VNNI itself")
def test_avxvnni_emulated_gives_the_same(host: Any, portable: str) -> None:
    program = host.emulating("avx2", "emulated_avxvnni.h", ["experts", "float4_linear", "indexer"], [])
    assert host.run(program, "avx2", "2") == portable


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["neon", "portable"])
def test_arm_gives_the_same(arm: Any, isa: str, portable: str) -> None:
    few = ["4"] if isa == "portable" else []
    found = arm.run(arm.kernels_test(["neon", "portable"], ["-O1"]), isa, "2", *few)
    assert_are_of(found, portable)
    assert few or found == portable


@pytest.mark.slow
@pytest.mark.parametrize(("processor", "found"), [("cortex-a53", ["portable"]), ("max", ["neon", "portable"])])
def test_arm_without_dot_products_gets_the_portable_build(arm: Any, processor: str, found: list[str]) -> None:
    emulator = (arm.runner[0], "-cpu", processor)
    assert arm.run(arm.kernels_test(["neon", "portable"], ["-O1"]), "--isas", runner=emulator).split() == found


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="no qemu-x86_64")
def test_a_processor_without_avx2_gets_the_portable_build(host: Any, program: Path, portable: str) -> None:
    # Any instruction it lacks would end it.
    emulator = ("qemu-x86_64", "-cpu", "Nehalem")
    assert host.run(program, "--isas", runner=emulator).split() == ["portable"]
    assert_are_of(host.run(program, "portable", "2", "8", runner=emulator), portable)


def assert_are_of(found: str, whole: str) -> None:
    """Lines of the whole, some of every operator."""
    assert set(found.splitlines()) <= set(whole.splitlines())
    assert {line.split()[0] for line in found.splitlines()} == {line.split()[0] for line in whole.splitlines()}
