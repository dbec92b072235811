"""Which figures there are."""

import pytest

from shoal.bench.kernels import chosen, names
from shoal.errors import OptionError


def test_the_figures_are_those_that_are_published() -> None:
    assert set(names()) == {
        "moe_step_1",
        "moe_step_1_avx2",
        "moe_step_1_avxvnni",
        "fp8_linear_1",
        "fp8_linear_1_avx2",
        "head",
        "experts_4_over_1",
        "moe_128",
        "moe_2048",
        "prefill_fp8_vs_torch",
        "attention_1",
        "attention_128",
        "index_score",
        "quantize_q8",
        "vs_llamacpp_1",
        "vs_llamacpp_128",
    }
    assert len(names()) == len(set(names()))


def test_figures_are_chosen_by_name() -> None:
    assert [case.name for case in chosen(["head", "moe_step_1"])] == ["moe_step_1", "head"]
    assert [case.name for case in chosen([])] == list(names())


def test_an_unknown_figure_is_refused_with_those_there_are() -> None:
    with pytest.raises(OptionError, match="`speed` is not a figure, expected one of moe_step_1, "):
        chosen(["head", "speed"])
