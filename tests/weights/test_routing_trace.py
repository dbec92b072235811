from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import OptionError
from shoal.weights.routing_trace import RoutingTrace

STEPS = st.lists(st.tuples(st.integers(0, 42), st.lists(st.integers(0, 383), unique=True).map(tuple)))


@given(steps=STEPS)
def test_steps_are_read_back_as_they_were(tmp_path: Path, steps: list[tuple[int, tuple[int, ...]]]) -> None:
    trace = RoutingTrace()
    for layer_id, expert_ids in steps:
        trace.visit(layer_id, expert_ids)
    assert list(trace) == steps
    trace.save(tmp_path / "trace.jsonl")
    assert list(RoutingTrace.load(tmp_path / "trace.jsonl")) == steps


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        '{"layer": 1}',
        '{"layer": -1, "experts": []}',
        '{"layer": 1, "experts": [true]}',
        '{"layer": 1, "experts": [3, 3]}',
        '{"layer": 1, "experts": [4294967296]}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_step_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"layer": 1, "experts": [3]}\n' + line + "\n")
    with pytest.raises(OptionError, match=r"line 2 of `.*trace.jsonl` is no step, expected for example"):
        RoutingTrace.load(file)


def test_a_trace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot read the routing trace"):
        RoutingTrace.load(tmp_path / "none")
