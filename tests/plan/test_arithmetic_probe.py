import importlib.util

import pytest

from shoal.plan.arithmetic_probe import measure_arithmetic


def test_it_gives_a_plausible_rate() -> None:
    found = measure_arithmetic()
    assert found is not None and 1e8 < found < 1e15


def test_without_torch_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert measure_arithmetic() is None
