"""`shoal eval` as a user meets it."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble import MINIATURE
from shoal.cli import ticker
from shoal.engine.events import TokenEvent
from shoal.engine.request import Request
from shoal.errors import FileChangedError
from shoal.eval import suites
from shoal.text.tokenizer import Tokenizer

RunShoal = Callable[..., Any]


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """Three questions of two groups, one that no context holds, and a text."""
    lines = [
        {"group": "seen", "prompt": "France:", "expect": {"equals": "Paris", "ends": True}},
        {"group": "seen", "prompt": "Italy:", "expect": {"equals": "Rome", "ends": True}},
        {"group": "other", "messages": [{"role": "user", "content": "Hi"}], "expect": {"equals": "Paris"}},
        {"group": "other", "prompt": "Hi", "max_new_tokens": 60_000, "expect": {"ends": True}},
        {"group": "other", "text": "Fish swim."},
    ]
    file = tmp_path / "items.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.fixture(autouse=True)
def _always_paris(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = Tokenizer.load(MINIATURE).encode("Paris")

    def stream(self: object, request: Request, progress: object = None) -> Iterator[TokenEvent]:
        return iter([*[TokenEvent(token, None, 0.1) for token in ids], TokenEvent(None, "stop", 0.1)])

    monkeypatch.setattr("shoal.engine.engine.Engine.stream", stream)


def test_the_table_is_all_of_stdout_and_the_rest_is_on_stderr(run_shoal: RunShoal, items: Path) -> None:
    code, out, err = run_shoal("eval", "--suite", items, "--threads", 1)
    assert code == 0, err
    rows = [line.split()[1:] for line in out.splitlines()]
    assert rows[:4] == [
        ["group", "right", "total", "percent", "skipped", "of", "each", "check"],
        ["other", "1", "1", "100.0", "1"],
        ["seen", "1", "2", "50.0", "-", "equals", "50.0,", "ends", "100.0"],
        ["all", "2", "3", "66.7", "1", "equals", "66.7,", "ends", "100.0"],
    ]
    assert rows[5] == ["group", "positions", "tokens", "perplexity"]
    assert rows[6][:2] == ["all", "0-31"]
    assert rows[7][:2] == ["all", "all"]
    lines = [line for line in err.splitlines() if "so far" not in line]
    assert lines[0].startswith("loaded: ")
    assert lines[1] == "done: 5 items"
    assert re.fullmatch(rf"skipped: {items}, line 4: it needs a context of 60,\d+ tokens, this one has 2,048", lines[2])


def test_json_has_the_figures_and_every_item(run_shoal: RunShoal, items: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    code, out, err = run_shoal("eval", MINIATURE, "--suite", items, "--json", file, "--quiet")
    assert (code, err) == (0, "")
    assert out
    content = json.loads(file.read_text())
    assert (content["checkpoint"], content["complete"]) == (str(MINIATURE), True)
    assert content["suites"][str(items)]["accuracy"]["right"] == 2
    assert [item["line"] for item in content["items"]] == [1, 2, 3, 4, 5]
    second = content["items"][1]
    assert (second["reply"], second["right"], second["failed"]) == ("Paris", False, ["equals"])


def test_no_suite_is_all_built_in_ones_and_a_limit_counts_in_each(
    run_shoal: RunShoal, items: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "eval"
    folder.mkdir()
    for name in suites.NAMES:
        (folder / f"{name}.jsonl").write_bytes(items.read_bytes())
    monkeypatch.setattr(suites, "FOLDER", folder)
    file = tmp_path / "out.json"
    assert run_shoal("eval", "--limit", 2, "--json", file).code == 0
    done = [(item["suite"], item["line"]) for item in json.loads(file.read_text())["items"]]
    assert done == [(name, line) for name in suites.NAMES for line in (1, 3)]


def test_progress_counts_items_and_says_how_many_are_right(
    run_shoal: RunShoal, items: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    from shoal.eval.run import _Asking

    ask = _Asking._ask

    def slowly(self: _Asking, *arguments: Any) -> Any:
        time.sleep(0.15)
        return ask(self, *arguments)

    monkeypatch.setattr(_Asking, "_ask", slowly)
    monkeypatch.setattr(ticker, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(ticker, "NEXT_SECONDS", 0.05)
    err = run_shoal("eval", "--suite", items).err
    assert "loading" in err
    assert re.search(rf"2 of 5 items; {items}, 50\.0 % of 2 right, \d+ s so far", err)


@pytest.mark.parametrize(("problem", "code"), [(KeyboardInterrupt(), 130), (FileChangedError("`a` vanished"), 1)])
def test_what_is_done_is_shown_when_it_ends_early(
    run_shoal: RunShoal, items: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException, code: int
) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr("shoal.eval.run.token_nats", fail)
    file = tmp_path / "out.json"
    outcome = run_shoal("eval", "--suite", items, "--json", file)
    assert outcome.code == code
    assert outcome.out.splitlines()[-1].split()[1:4] == ["all", "2", "3"]
    content = json.loads(file.read_text())
    assert (content["complete"], len(content["items"])) == (False, 4)
    assert "done:" not in outcome.err
    assert ("error: `a` vanished" in outcome.err) is (code == 1)


def test_wrong_items_are_an_error_before_anything_is_loaded(run_shoal: RunShoal, items: Path) -> None:
    items.write_text('{"group": "g", "prompt": "a", "expect": {"answer": 1}}\n')
    code, out, err = run_shoal("eval", "/absent", "--suite", items)
    assert (code, out) == (1, "")
    assert err == f"error: `{items}:1`: `expect.answer` is 1, expected a string\n"


def test_a_place_that_cannot_be_written_is_an_error_before_anything_is_asked(run_shoal: RunShoal, items: Path) -> None:
    code, out, err = run_shoal("eval", "--suite", items, "--json", "/absent/out.json")
    assert (code, out) == (1, "")
    assert "cannot write `/absent/out.json`" in err
