"""`SHOAL_ISA` forces the native kernels of one instruction set."""

from collections.abc import Callable
from typing import Any

import pytest

RunShoal = Callable[..., Any]


def test_every_instruction_set_gives_the_same_answer(run_shoal: RunShoal, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("generate", "--ids", "0,331,419", "--max-new-tokens", "2", "--quiet")
    best = run_shoal(*arguments)
    monkeypatch.setenv("SHOAL_ISA", "portable")
    forced = run_shoal(*arguments)
    assert best.code == forced.code == 0
    assert best.out == forced.out != ""


def test_an_instruction_set_the_machine_lacks_is_named(run_shoal: RunShoal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_ISA", "sse9")
    outcome = run_shoal("generate", "--ids", "0,331")
    assert outcome.code == 1
    assert outcome.err.splitlines()[-1].startswith("error: instruction set `sse9` is not one of")
