"""Each check, held and not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.eval.check import BeginsWith, Calls, Check, Ends, Equals, Validates, WantedCall
from shoal.text.reply import Call, Reply


@pytest.mark.parametrize(
    ("content", "held"),
    [
        ("Paris", True),
        (" \nParis.", True),
        ("Paris, France", True),
        ("Paris_", True),
        ("Parisian", False),
        ("Paris2", False),
        ("Parisé", False),
        ("paris", False),
        ("It is Paris", False),
        ("Par", False),
        ("", False),
    ],
)
def test_an_answer_begins_the_reply_and_its_word_ends(content: str, held: bool) -> None:
    assert BeginsWith("Paris").holds(Reply(content), False) is held


@given(st.text("Par s", max_size=8), st.text("Par s", max_size=3))
def test_what_is_settled_no_longer_changes(content: str, more: str) -> None:
    check = BeginsWith("Pa")
    if check.is_settled(content):
        assert check.holds(Reply(content), True) == check.holds(Reply(content + more), True)


def test_an_answer_that_may_still_become_a_longer_word_is_not_settled() -> None:
    check = BeginsWith("Paris")
    assert [check.is_settled(content) for content in ("", " ", " Par", "Paris", "Paris.", "Parisi", "Pra")] == [
        *[False] * 4,
        *[True] * 3,
    ]


def test_equals_leaves_out_white_space_around() -> None:
    check = Equals(" a b\n")
    assert check.holds(Reply("\n a b "), False)
    assert not check.holds(Reply("a  b"), True)
    assert not check.holds(Reply("a b."), True)


CALLS = Calls((WantedCall("f", {"x": 1, "y": "a"}), WantedCall("g", {})))


@pytest.mark.parametrize(
    ("calls", "held"),
    [
        ([("f", '{"y": "a", "x": 1.0}'), ("g", "{}")], True),
        ([("g", "{}"), ("f", '{"y": "a", "x": 1}')], False),
        ([("f", '{"y": "a", "x": 1}')], False),
        ([("f", '{"y": "a", "x": 1}'), ("g", "{}"), ("g", "{}")], False),
        ([("f", '{"y": "a", "x": true}'), ("g", "{}")], False),
        ([("f", '{"y": "a", "x": 1'), ("g", "{}")], False),
        ([("f", '{"y": "a", "x": "1"}'), ("g", "{}")], False),
        ([("f", '{"y": "a", "x": 1}'), ("g", "[]")], False),
        ([], False),
    ],
)
def test_calls_are_compared_in_order_by_name_and_value(calls: list[tuple[str, str]], held: bool) -> None:
    assert CALLS.holds(Reply("", None, tuple(Call(*call) for call in calls)), True) is held


def test_no_calls_can_be_what_is_wanted() -> None:
    assert Calls(()).holds(Reply("No."), True)
    assert not Calls(()).holds(Reply("", None, (Call("f", "{}"),)), True)


@pytest.mark.parametrize(("content", "held"), [(' {"a": 1}\n', True), ('{"a": 1', False), ('{"a": "1"}', False)])
def test_a_reply_is_json_of_the_schema(content: str, held: bool) -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    assert Validates(schema).holds(Reply(content), True) is held


def test_ends_asks_for_the_end_token() -> None:
    assert Ends().holds(Reply("x"), True)
    assert not Ends().holds(Reply("x"), False)


def test_the_checks_have_the_names_of_their_fields() -> None:
    checks: list[Check] = [BeginsWith(""), Equals(""), Calls(()), Validates({}), Ends()]
    assert [check.name for check in checks] == ["answer", "equals", "calls", "schema", "ends"]
