"""What is shown where, by a terminal that is not one."""

import io
from types import SimpleNamespace

import pytest

from shoal.cli import chat_screen
from shoal.cli.chat_reply import PromptProgress, ReplyFigures
from shoal.cli.chat_screen import Screen, summary
from shoal.text.reply_stream import ReplyPiece

THOUGHT, SAID = ReplyPiece("reasoning", "Let me see."), ReplyPiece("content", "Paris.")


class Live(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> tuple[Live, Live]:
    out, err = Live(), Live()
    # Not those of the process, which pytest sets anew when the test begins.
    monkeypatch.setattr(chat_screen, "sys", SimpleNamespace(stdout=out, stderr=err))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return out, err


def show(screen: Screen, *parts: PromptProgress | ReplyPiece) -> None:
    view = screen.begin()
    for part in parts:
        view.show(part)
    view.end()


def test_thinking_is_dimmed_and_not_part_of_the_answer(terminal: tuple[Live, Live]) -> None:
    show(Screen(), THOUGHT, SAID)
    out, err = (stream.getvalue() for stream in terminal)
    assert out == "Paris.\n"
    assert err == "\033[2mLet me see.\033[0m\n\n"


def test_folded_it_is_a_line(terminal: tuple[Live, Live]) -> None:
    show(Screen("fold"), THOUGHT, THOUGHT, SAID)
    out, err = (stream.getvalue() for stream in terminal)
    assert out == "Paris.\n"
    assert "thought for 0 s: 2 tokens (`/thinking show` shows them)" in err and "see" not in err


def test_off_it_is_nothing(terminal: tuple[Live, Live]) -> None:
    show(Screen("off"), THOUGHT, SAID)
    assert [stream.getvalue() for stream in terminal] == ["Paris.\n", ""]


def test_without_colour_nothing_is_dimmed(terminal: tuple[Live, Live], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    show(Screen("show"), THOUGHT, SAID)
    assert terminal[1].getvalue() == "Let me see.\n\n"


def test_a_terminal_gets_no_control_character_of_a_model(terminal: tuple[Live, Live]) -> None:
    show(Screen("show"), ReplyPiece("reasoning", "\033]0;x\007"), ReplyPiece("content", "a\033[31m\x9b\x7f\tb\nc"))
    out, err = (stream.getvalue() for stream in terminal)
    assert out == "a␛[31m\ufffd␡\tb\nc\n"
    assert err == "\033[2m␛]0;x␇\033[0m\n\n"


def test_a_file_gets_every_character(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen(), ReplyPiece("content", "a\033[31m\n"))
    assert capsys.readouterr() == ("a\033[31m\n", "")


def test_a_long_prompt_is_one_line_that_changes_and_goes(
    terminal: tuple[Live, Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_screen, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(chat_screen, "_LIVE_SECONDS", 0.0)
    monkeypatch.setenv("NO_COLOR", "1")
    show(Screen(), PromptProgress(1000, 9000, 500), PromptProgress(9000, 9000, 500), SAID)
    told = "\r\033[Kreading the prompt: {} of 9,000 tokens, 500 of them known"
    assert terminal[1].getvalue() == told.format("1,000") + told.format("9,000") + "\r\033[K"


def test_in_a_log_it_is_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_screen, "_FIRST_SECONDS", 0.0)
    show(Screen(), PromptProgress(1000, 9000, 0), PromptProgress(2000, 9000, 0), SAID)
    assert capsys.readouterr() == ("Paris.\n", "reading the prompt: 1,000 of 9,000 tokens, 0 s so far\n")


def test_a_summary_says_what_is_known() -> None:
    assert summary(ReplyFigures()) == ""
    figures = ReplyFigures(9, 5, 11, 0.5, 2.5, "stop")
    wanted = (
        "prompt: 9 tokens, 5 of them from the cache; reply: 11 tokens; 5.0 tokens/s; first after 0.50 s; finish: stop"
    )
    assert summary(figures) == wanted
