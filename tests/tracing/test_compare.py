from collections.abc import Callable
from math import inf

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from shoal.errors import TensorError
from shoal.tracing.compare import compare
from shoal.tracing.report import report_lines

Traced = dict[str, Tensor]


def _changed(whole: Traced, name: str, change: Callable[[Tensor], Tensor]) -> Traced:
    return whole | {name: change(whole[name].clone())}


def _add_one(value: Tensor) -> Tensor:
    value[1] += 1
    return value


def test_a_trace_is_identical_to_itself(whole: Traced) -> None:
    comparison = compare(whole, dict(reversed(whole.items())))
    assert comparison.is_same and len(comparison.compared) == len(whole)
    assert next(iter(report_lines(comparison, "a", "b"))) == f"identical: {len(whole)} tensors"


def test_the_first_difference_is_the_first_in_execution_order(whole: Traced) -> None:
    other = whole
    for name in ("logits", "L3.ffn_out", "L3.attn_out", "L4.attn_in"):
        other = _changed(other, name, _add_one)
    comparison = compare(other, whole)
    assert comparison.first is not None and comparison.first.name == "L3.attn_out"
    assert (comparison.first.rows, comparison.first.num_rows) == (1, 7)
    report = "\n".join(report_lines(comparison, "a", "b"))
    assert f"4 of {len(whole)} tensors differ, first `L3.attn_out`: L2 " in report
    assert report.count("same") > 20


@pytest.mark.parametrize("seed", range(3))
def test_any_single_changed_element_is_found(seed: int, whole: Traced) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Beyond the tokens it holds an open group's state means nothing, and so do candidates beyond what a row sees.
    names = [n for n, v in whole.items() if v.numel() and not n.endswith(("_state", ".candidates"))]
    for name in names:
        value = whole[name].clone().flatten()
        place = int(torch.randint(value.numel(), (1,), generator=generator))
        value[place] = 7 if value[place] != 7 else 5
        comparison = compare({name: value.view(whole[name].shape)}, {name: whole[name]})
        assert comparison.first is not None and comparison.first.name == name
        assert comparison.first.rows == 1


def test_a_changed_candidate_that_its_row_sees_is_found(whole: Traced) -> None:
    other = _changed(whole, "L6.candidates", lambda candidates: candidates.logical_xor(torch.eye(7).bool()))
    first = compare(other, whole).first
    assert first is not None and (first.name, first.rows) == ("L6.candidates", 7)


def test_the_sign_of_zero_counts() -> None:
    assert not compare({"logits": torch.tensor([[0.0]])}, {"logits": torch.tensor([[-0.0]])}).is_same


def test_infinities_and_nans_at_the_same_place_are_equal() -> None:
    value = torch.tensor([[inf, -inf, torch.nan]])
    assert compare({"logits": value}, {"logits": value.clone()}).is_same
    found = compare({"logits": value}, {"logits": torch.zeros(1, 3)}).compared[0].distance
    assert found is not None and (found.relative, found.largest, found.share) == (inf, inf, 1.0)


def test_experts_are_compared_as_sets_with_their_weights(whole: Traced) -> None:
    flipped = {
        name: value.flip(1) if name.startswith("L5.router") and value.dim() == 2 else value
        for name, value in whole.items()
    }
    assert not torch.equal(flipped["L5.router.indices"], whole["L5.router.indices"])
    assert compare(flipped, whole).is_same
    only_indices = whole | {"L5.router.indices": flipped["L5.router.indices"]}
    first = compare(only_indices, whole).first
    assert first is not None and first.name == "L5.router.weights"


def test_picks_may_be_counted_from_behind_the_raw_keys(whole: Traced) -> None:
    offset = {n: torch.where(v >= 0, v + 7, v) if n.endswith(".topk") else v for n, v in whole.items()}
    assert compare(whole, offset).is_same and compare(offset, whole).is_same
    wrong = _changed(offset, "L6.topk", lambda picks: torch.where(picks == 8, 9, picks))
    first = compare(whole, wrong).first
    assert first is not None and first.name == "L6.topk"


def test_narrower_index_tensors_are_widened(whole: Traced) -> None:
    narrow = whole | {"L2.topk": torch.nn.functional.pad(whole["L2.topk"], (0, 5), value=-1)}
    assert compare(narrow, whole).is_same


def test_recorded_rows_are_found_by_their_positions(whole: Traced) -> None:
    rows = torch.tensor([0, 3, 6])
    kept = {"sel_positions": rows, "input_ids": whole["input_ids"], "L7.stream_out": whole["L7.stream_out"][rows]}
    assert compare(whole, kept).is_same and compare(kept, whole).is_same
    assert not compare(whole, kept | {"sel_positions": torch.tensor([0, 3, 5])}).is_same
    with pytest.raises(TensorError, match=r"`sel_positions` names rows that `L7.stream_out` lacks, expected 0 to 6"):
        compare(whole, kept | {"sel_positions": torch.tensor([0, 3, 7])})


def test_logits_of_the_last_rows_are_compared_with_the_last(whole: Traced) -> None:
    assert compare(whole, {"logits": whole["logits"][-1]}).is_same
    assert compare(whole, {"logits": whole["logits"][-2:]}).is_same
    assert not compare(whole, {"logits": whole["logits"][0]}).is_same


def test_a_decode_step_is_a_row_of_the_whole_run(whole: Traced) -> None:
    steps = {f"s6.{name}": whole[name][6:] for name in ("L4.attn_in", "input_ids", "L6.index_score")}
    steps["s5.L6.topk"] = whole["L6.topk"][5, :6]
    assert compare(whole, steps).is_same
    comparison = compare(whole, steps | {"s5.L4.attn_in": whole["L4.attn_in"][6:]})
    assert comparison.first is not None and comparison.first.name == "s5.L4.attn_in"
    with pytest.raises(TensorError, match="expected a row for position 9"):
        compare(whole, {"s9.L4.attn_in": whole["L4.attn_in"][6:]})


def test_only_the_held_rows_of_an_open_group_count(whole: Traced) -> None:
    other = _changed(whole, "cache.L2.score_state", _add_one)
    assert compare(other, whole).is_same
    other["cache.L2.score_state"][0] += 1
    assert not compare(other, whole).is_same


def test_shapes_that_do_not_fit_are_a_difference(whole: Traced) -> None:
    comparison = compare(whole, {"L0.attn_in": torch.zeros(7, 3), "logits": torch.zeros(9, 1023)})
    assert [d.distance for d in comparison.compared] == [None, None]
    report = "\n".join(report_lines(comparison, "a", "b"))
    assert "`L0.attn_in`: shape [7, 160] against [7, 3]" in report


def test_names_in_one_trace_only_are_listed_and_do_not_count(whole: Traced) -> None:
    comparison = compare({**whole, "mine": torch.zeros(1)}, whole)
    assert comparison.is_same and comparison.only_in_a == ("mine",)
    assert "only in `a`: 1 tensors: `mine`" in list(report_lines(comparison, "a", "b"))


def test_nothing_in_common_is_not_the_same() -> None:
    comparison = compare({"x": torch.zeros(1)}, {"y": torch.zeros(1)})
    assert not comparison.is_same
    assert next(iter(report_lines(comparison, "a", "b"))) == "no tensor is in both"


NAMES = st.sampled_from(
    [
        "sel_positions",
        "input_ids",
        "L0.topk",
        "s3.L0.topk",
        "L0.router.indices",
        "L0.router.weights",
        "logits",
        "cache.L0.window_kv",
        "cache.L2.kv_state",
        "L6.candidates",
        "L6.index_score",
        "s1.L6.index_score",
        "L999.stream_out",
        "\x1b[2J",
    ]
)
DTYPES = st.sampled_from([torch.float32, torch.int32, torch.bool, torch.bfloat16, torch.uint8])


@st.composite
def _hostile(draw: st.DrawFn) -> Traced:
    traced = {}
    for name in draw(st.lists(NAMES, unique=True, max_size=6)):
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        traced[name] = torch.full(shape, draw(st.integers(-2, 9))).to(draw(DTYPES))
    return traced


@given(_hostile(), _hostile())
def test_no_content_of_a_file_raises_anything_but_a_named_error(a: Traced, b: Traced) -> None:
    try:
        report = "\n".join(report_lines(compare(a, b), "a", "b"))
    except TensorError:
        return
    assert "\x1b" not in report
