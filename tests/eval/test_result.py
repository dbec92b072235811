"""Figures of shares of the outcomes, and their table."""

import json
import math

from shoal.eval.outcome import Answered, Outcome, Scored, Skipped
from shoal.eval.result import EvalResult, Share
from shoal.eval.table import table_lines


def answered(group: str, **checks: bool) -> Answered:
    return Answered("facts", group, 1, 5, "Paris", "stop", checks)


OUTCOMES: tuple[Outcome, ...] = (
    answered("seen", answer=True, ends=True),
    answered("seen", answer=True, ends=False),
    answered("other", answer=False),
    Skipped("facts", "other", 4, "it needs more"),
    Scored("text", "story", 1, (math.log(2.0),) * 32 + (math.log(8.0),) * 2),
    Scored("text", "story", 2, (math.log(2.0),)),
)
RESULT = EvalResult(OUTCOMES)


def test_an_item_is_right_when_all_its_checks_hold() -> None:
    accuracy = RESULT.accuracy("facts", "seen")
    assert (accuracy.right, accuracy.total, accuracy.percent) == (1, 2, 50.0)
    assert accuracy.checks == {"answer": Share(2, 2), "ends": Share(1, 2)}


def test_a_skipped_item_is_neither_right_nor_wrong() -> None:
    accuracy = RESULT.accuracy("facts")
    assert (accuracy.right, accuracy.total, accuracy.skipped) == (1, 3, 1)
    assert RESULT.accuracy() == accuracy
    assert RESULT.accuracy("absent").percent is None


def test_perplexity_goes_by_position() -> None:
    assert RESULT.perplexity("text").tokens == 35
    assert math.isclose(RESULT.perplexity("text", bucket=(0, 32)).value or 0.0, 2.0)
    late = RESULT.perplexity("text", "story", (32, 64))
    assert late.tokens == 2
    assert math.isclose(late.value or 0.0, 8.0)
    assert RESULT.perplexity("facts").value is None


def test_the_table_says_it_all() -> None:
    assert list(table_lines(RESULT)) == [
        "suite  group  right  total  percent  skipped  of each check",
        "facts  other      0      1      0.0        1",
        "facts  seen       1      2     50.0        -  answer 100.0, ends 50.0",
        "facts  all        1      3     33.3        1  answer 66.7, ends 50.0",
        "",
        "suite  group  positions  tokens  perplexity",
        "text   all         0-31      33       2.000",
        "text   all        32-63       2       8.000",
        "text   all          all      35       2.165",
    ]


def test_an_evaluation_of_nothing_says_so() -> None:
    assert list(table_lines(EvalResult(()))) == ["no item was done"]


def test_all_of_it_is_json_and_every_item_is_in_it() -> None:
    content = json.loads(json.dumps(RESULT.as_dict(), allow_nan=False))
    assert content["complete"] is True
    assert content["suites"]["facts"]["groups"]["seen"]["accuracy"] == {
        "right": 1,
        "total": 2,
        "skipped": 0,
        "checks": {"answer": {"right": 2, "total": 2}, "ends": {"right": 1, "total": 2}},
    }
    assert content["suites"]["text"]["perplexity"]["buckets"]["32-63"]["tokens"] == 2
    assert [item["line"] for item in content["items"]] == [1, 1, 1, 4, 1, 2]
    assert content["items"][1]["failed"] == ["ends"]
    assert content["items"][3]["skipped"] == "it needs more"
