"""What a model wrote as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.eval.json_value import parse_json, same_json

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5]) | st.sampled_from(["", "a"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner))


@pytest.mark.parametrize("text", ["", "{", "NaN", "-Infinity", "1 2", "[" * 100_000, "9" * 5000, "{'a': 1}"])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


@given(VALUES)
def test_a_value_is_the_same_as_its_copy_and_not_as_a_list_of_it(value: object) -> None:
    assert same_json(value, parse_json(json.dumps(value)))
    assert not same_json(value, [value])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ([True], [1], False),
        (True, True, True),
        (None, 0, False),
        ("1", 1, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
    ],
)
def test_sameness_is_that_of_json(one: object, other: object, same: bool) -> None:
    assert same_json(one, other) is same
    assert same_json(other, one) is same
