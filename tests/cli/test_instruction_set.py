"""`SHOAL_ISA` forces the native kernels of one instruction set."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal.ops.kernels
from miniature import MINI

PORTABLE_LINE = "portable kernels: this processor lacks"
RunShoal = Callable[..., Any]


def test_every_instruction_set_gives_the_same_answer(run_shoal: RunShoal, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("generate", MINI, "--ids", "0,331,419", "--max-new-tokens", "2", "--quiet")
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


def lines_about_portable(err: str) -> int:
    return sum(line.startswith(PORTABLE_LINE) for line in err.splitlines())


@pytest.mark.parametrize(("isas", "lines"), [(("portable",), 1), (("avx2", "portable"), 0)])
def test_a_machine_with_portable_kernels_only_is_told_in_one_line(
    run_shoal: RunShoal, monkeypatch: pytest.MonkeyPatch, isas: tuple[str, ...], lines: int
) -> None:
    monkeypatch.setattr(shoal.ops.kernels, "available_isas", lambda: isas)
    monkeypatch.setenv("SHOAL_ISA", "portable")
    told = run_shoal("generate", MINI, "--ids", "0,331", "--max-new-tokens", "1")
    quiet = run_shoal("generate", MINI, "--ids", "0,331", "--max-new-tokens", "1", "--quiet")
    assert (told.code, lines_about_portable(told.err)) == (0, lines)
    assert (quiet.code, quiet.err) == (0, "")


def test_a_trace_tells_it_too_where_the_kernels_compute(
    run_shoal: RunShoal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shoal.ops.kernels, "available_isas", lambda: ("portable",))
    for arithmetic, lines in (("native", 1), ("wide", 0)):
        outcome = run_shoal("trace", MINI, "--ids", "0", "--arithmetic", arithmetic, "--out", tmp_path / arithmetic)
        assert (outcome.code, lines_about_portable(outcome.err)) == (0, lines)
