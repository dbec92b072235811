"""Suites by name and from files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.errors import EvalError
from shoal.eval import suites
from shoal.eval.item import Passage, Question
from shoal.eval.suites import FOLDER, NAMES, load_suites, read_suite

A, B = ({"group": "g", "text": text} for text in "ab")


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_suite_is_well_formed(name: str) -> None:
    if not (FOLDER / f"{name}.jsonl").exists():
        pytest.skip(f"`{name}.jsonl` is not there yet")
    (suite,) = load_suites([name])
    assert suite.name == name
    assert {type(item) for item in suite.items} == {Passage if name == "text" else Question}


def test_a_file_is_a_suite_and_blank_lines_count_as_lines(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('\n{"group": "g", "text": "é"}\r\n   \n{"group": "h", "text": "b"}', encoding="utf-8")
    (suite,) = load_suites([str(file)])
    assert (suite.name, suite.items) == (str(file), [Passage(2, "g", "é"), Passage(4, "h", "b")])


def test_suites_come_in_the_order_they_are_named(write_items: Callable[..., Path], monkeypatch) -> None:
    file = write_items(A, B)
    monkeypatch.setattr(suites, "FOLDER", file.parent)
    file.rename(file.with_name("text.jsonl"))
    other = write_items(A)
    assert [suite.name for suite in load_suites([str(other), "text"])] == [str(other), "text"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["fact"], "there is no suite `fact`, expected one of `facts`, `chat`"),
        (["a.jsonl", "a.jsonl"], "the suite `a.jsonl` is given twice"),
        (["/absent/a.jsonl"], "cannot read the suite `/absent/a.jsonl`: No such file"),
    ],
)
def test_a_wrong_name_says_what_there_is(names: list[str], says: str) -> None:
    with pytest.raises(EvalError) as error:
        load_suites(names)
    assert says in error.value.message


def test_a_file_that_is_none_or_too_large_or_empty_is_refused(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "a.jsonl"
    for content, says in ((b" \n", "has no items"), (b"x" * 41, "has over 40 bytes"), (b"x" * 31, "is 31 bytes")):
        file.write_bytes(content)
        monkeypatch.setattr(suites, "MOST_FILE_NBYTES", 40)
        monkeypatch.setattr(suites, "MOST_LINE_NBYTES", 30)
        with pytest.raises(EvalError, match=says):
            read_suite(file, "a")
    with pytest.raises(EvalError, match="is not a file"):
        read_suite(tmp_path, "a")


def test_an_error_names_file_and_line(write_items: Callable[..., Path]) -> None:
    file = write_items(A, {**B, "more": 1})
    with pytest.raises(EvalError) as error:
        read_suite(file, "a")
    assert error.value.message == f"`{file}:2`: unknown field `more`, expected `group` and `text`"
