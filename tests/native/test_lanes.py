"""Lanes have the same bits on every instruction set: the dumps of `lanes_test` are equal byte for byte."""

from typing import Any

import pytest

from shoal._native import isas


def dump(toolchain: Any, isa: str, options: tuple[str, ...] = ()) -> str:
    return toolchain.run(toolchain.program("lanes_test", [*toolchain.isa_options(isa), *options]))


@pytest.fixture(scope="session")
def portable(host: Any) -> str:
    found = dump(host, "portable")
    assert found.count("\n") > 20_000
    return found


@pytest.mark.parametrize("isa", isas()[:-1])
def test_every_instruction_set_is_as_portable(host: Any, isa: str, portable: str) -> None:
    assert dump(host, isa) == portable


@pytest.mark.parametrize("isa", ["neon", "portable"])
def test_arm_is_as_portable(arm: Any, isa: str, portable: str) -> None:
    assert dump(arm, isa) == portable
