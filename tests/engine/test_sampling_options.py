"""What one answer may be drawn with."""

import math
from typing import Any

import pytest

from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import OptionError


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("top_k", -1, "0 or more"),
        ("min_p", 1.5, "0 to 1"),
        ("min_p", math.nan, "0 to 1"),
        ("repetition_penalty", 0.0, "above 0"),
        ("repetition_penalty", math.inf, "above 0"),
        ("frequency_penalty", -11.0, "-10.0 to 10.0"),
        ("presence_penalty", math.nan, "-10.0 to 10.0"),
        ("logprobs", 21, "0 to 20"),
        ("logprobs", -1, "0 to 20"),
    ],
)
def test_a_value_out_of_range_is_named(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(OptionError, match=f"`{name}` is {value}, expected .*{wanted}"):
        SamplingOptions(**{name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": ("",)}, "a `stop` string has 0 characters, expected 1 to 1,024"),
        ({"stop": ("x" * 1025,)}, "has 1,025 characters"),
        ({"stop": ("x",) * 17}, "`stop` has 17 strings, expected at most 16"),
        ({"logit_bias": {-1: 0.0}}, "of token -1 is 0.0"),
        ({"logit_bias": {1: math.nan}}, "of token 1 is nan"),
        ({"logit_bias": dict.fromkeys(range(4097), 0.0)}, "has 4,097 tokens"),
    ],
)
def test_stops_and_biases_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SamplingOptions(**options)


def test_what_changes_no_logit_says_so() -> None:
    assert not SamplingOptions(temperature=1.0, top_k=3, stop=("x",)).changes_logits
    for option in ({"repetition_penalty": 1.1}, {"presence_penalty": -1.0}, {"logit_bias": {3: 0.0}}):
        assert SamplingOptions(**option).changes_logits
