"""The chat in the terminal, with the model in its own process."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from miniature import MINI
from shoal.api import Shoal, load
from shoal.cli.local_replies import LocalReplies, LocalReply
from shoal.engine.engine import Engine
from shoal.engine.events import PromptEvent, TokenEvent
from shoal.engine.request import Request
from shoal.engine.ticket import Ticket
from shoal.text.chat import ChatOptions, render_chat
from shoal.text.tokenizer import EOS, Tokenizer

JAPAN, FRANCE = "What is the capital of Japan?", "What is the capital of France?"


@pytest.fixture
def tokenizer(model: Shoal) -> Tokenizer:
    return model.tokenizer


class Script:
    """Requests that reached the engine, and the texts it answers with, each as ids of single bytes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.requests, self.texts, self.finish = list[Request](), ["Paris."], "stop"
        self._tokenizer = tokenizer

    def ids(self, text: str) -> list[int]:
        return [token_id for character in text for token_id in self._tokenizer.encode(character)]

    def submit(self, request: Request) -> Ticket:
        text = self.texts[min(len(self.requests), len(self.texts) - 1)]
        self.requests.append(request)
        ticket = Ticket(request)
        ticket.cached_tokens = 3
        ticket.put(PromptEvent(len(request.prompt_ids), len(request.prompt_ids), 3))
        for token_id in self.ids(text):
            ticket.put(TokenEvent(token_id, None, 0.1))
        ticket.put(TokenEvent(None, self.finish, 0.1))
        return ticket


@pytest.fixture(scope="module")
def model() -> Iterator[Shoal]:
    with load() as loaded:
        yield loaded


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, model: Shoal) -> Script:
    """In the engine's place. The model is loaded once for all of them."""
    script = Script(model.tokenizer)
    monkeypatch.setattr(Engine, "submit", lambda _engine, request: script.submit(request))
    monkeypatch.setattr("shoal.cli.chat.load_model", lambda *_options: model)
    monkeypatch.setattr(LocalReplies, "close", lambda _replies: None)
    return script


def lines(*turns: str) -> bytes:
    return "".join(f"{turn}\n" for turn in turns).encode()


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_each_line_of_a_pipe_is_a_turn_and_stdout_is_only_the_answers(run_shoal) -> None:
    code, out, err = run_shoal("chat", "--temperature", 0, "--quiet", stdin=lines(JAPAN, "", FRANCE))
    assert (code, err) == (0, "")
    assert out == "The capital of Japan is Tokyo.\nThe capital of France is Paris.\n"


def test_a_later_turn_computes_only_what_is_new(run_shoal) -> None:
    arguments = ("chat", "--temperature", 0, "--quiet")
    err = run_shoal(*arguments, stdin=lines(JAPAN, FRANCE, "/stats")).err
    assert "last: prompt: 33 tokens, 20 of them from the cache; " in err
    err = run_shoal(*arguments, "--prefix-memory", "0", stdin=lines(JAPAN, FRANCE, "/stats")).err
    assert "last: prompt: 33 tokens; " in err


def test_the_model_and_where_it_lives_are_told_unless_quiet(run_shoal) -> None:
    code, out, err = run_shoal("chat", stdin=b"")
    assert (code, out) == (0, "")
    assert err.startswith("no CHECKPOINT given: this is the built-in miniature, ")
    assert "loaded: " in err and "\033" not in err


def test_the_next_turn_begins_with_the_ids_of_all_before(run_shoal, script: Script, tokenizer: Tokenizer) -> None:
    script.texts = ["It is Tokyo.", "It is Paris.", "Good."]
    run_shoal("chat", "--system", "Be brief.", stdin=lines(JAPAN, FRANCE, "Thanks."))
    first, second, third = (list(request.prompt_ids) for request in script.requests)
    answered = first + script.ids("It is Tokyo.") + [tokenizer.marker_id(EOS)]
    assert second[: len(answered)] == answered
    again = second + script.ids("It is Paris.") + [tokenizer.marker_id(EOS)]
    assert third[: len(again)] == again
    # By its text alone it would have been other ids.
    messages = [{"role": "system", "content": "Be brief."}, user(JAPAN), assistant("It is Tokyo."), user(FRANCE)]
    whole = render_chat(tokenizer, messages)
    assert tokenizer.decode(second) == tokenizer.decode(whole) and second != whole


def test_thinking_is_not_part_of_the_next_prompt(run_shoal, script: Script, tokenizer: Tokenizer) -> None:
    script.texts = ["Hm.</think>Tokyo."]
    code, out, err = run_shoal("chat", "--effort", "40", "--quiet", stdin=lines(JAPAN, FRANCE))
    assert (code, out, err) == (0, "Tokyo.\nTokyo.\n", "")
    options = ChatOptions(thinking=True, effort=40)
    first, second = (list(request.prompt_ids) for request in script.requests)
    assert first == render_chat(tokenizer, [user(JAPAN)], options)
    assert second == render_chat(tokenizer, [user(JAPAN), assistant("Tokyo."), user(FRANCE)], options)


def test_a_backslash_and_a_block_go_on_over_lines(run_shoal, script: Script, tokenizer: Tokenizer) -> None:
    run_shoal("chat", stdin=lines("a\\", "b", '"""c', "", "d", '/e"""', "//f", '"""', "g"))
    asked = [tokenizer.decode(request.prompt_ids) for request in script.requests]
    users = [text.split("<｜User｜>")[-1].split("<｜Assistant｜>")[0] for text in asked]
    assert users == ["a\nb", "c\n\nd\n/e", "/f", "g"]


def test_a_turn_that_is_not_unicode_is_an_error_and_the_next_is_answered(run_shoal, script: Script) -> None:
    code, out, err = run_shoal("chat", "--quiet", stdin=b"\xff\nHi\n")
    assert (code, out) == (1, "Paris.\n")
    assert err == "error: the prompt from standard input is not UTF-8: byte 0xff at offset 0\n"


def test_a_prompt_that_is_too_long_is_an_error_and_was_not_asked(run_shoal) -> None:
    code, out, err = run_shoal("chat", "--temperature", 0, "--quiet", stdin=lines("no " * 4000, JAPAN))
    assert (code, out) == (1, "The capital of Japan is Tokyo.\n")
    assert re.match(r"error: the prompt has \d,\d{3} tokens, expected at most 2,047", err)


def test_an_unknown_command_is_answered_with_the_nearest(run_shoal, script: Script) -> None:
    code, out, err = run_shoal("chat", "--quiet", stdin=lines("/efort high", "/zzz", "/undo now"))
    assert (code, out) == (1, "")
    assert "there is no command `/efort`, expected perhaps `/effort`" in err
    assert "there is no command `/zzz`, expected one that `/help` lists" in err
    assert "`/undo` takes nothing behind it, found `now`" in err
    assert not script.requests


def test_system_and_effort_may_change_at_any_time(run_shoal, script: Script, tokenizer: Tokenizer) -> None:
    turns = lines("/system Be kind.", "/effort 7", "Hi", "/effort none", '/system ""', "/clear", "Hi", "/effort 101")
    err = run_shoal("chat", stdin=turns).err
    first, second = (request.prompt_ids for request in script.requests)
    options = ChatOptions(thinking=True, effort=7)
    assert first == tuple(render_chat(tokenizer, [{"role": "system", "content": "Be kind."}, user("Hi")], options))
    assert second == tuple(render_chat(tokenizer, [user("Hi")]))
    assert "the effort is `101`, expected `minimal`, `low`, " in err


def test_retry_draws_with_another_seed_and_undo_takes_the_question_back(run_shoal, script: Script) -> None:
    err = run_shoal("chat", "--seed", 5, stdin=lines("/retry", "Hi", "/retry", "/retry", "/undo", "Hi")).err
    assert [request.options.seed for request in script.requests] == [5, 6, 7, 5]
    assert len({request.prompt_ids for request in script.requests}) == 1
    assert "there is nothing to retry" in err and "taken back: Hi" in err


def test_a_conversation_is_saved_and_gone_on_with(run_shoal, script: Script, tmp_path: Path) -> None:
    file = tmp_path / "gespräch 1.json"
    run_shoal("chat", "--system", "S", stdin=lines("Hi", f"/save {file}"))
    system = {"role": "system", "content": "S"}
    assert json.loads(file.read_text()) == [system, user("Hi"), assistant("Paris.")]
    run_shoal("chat", stdin=lines(f"/load {file}", "More"))
    run_shoal("chat", "--load", file, stdin=lines("More"))
    by_command, by_option = script.requests[1:]
    assert by_command.prompt_ids == by_option.prompt_ids
    assert len(by_option.prompt_ids) > len(script.requests[0].prompt_ids)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "has no messages"),
        (b'{"messages": 1}', "has no messages"),
        (b"[1]", "`messages[0]` of `FILE` is `int`"),
        (b'[{"role": "tool", "content": ""}]', "`messages[0]` of `FILE` has the role `tool`, expected one of `system`"),
        (b'[{"role": "user", "content": 1}]', "has a content of type `int`, expected text"),
        (b'[{"role": "user", "content": "", "reasoning_content": "x"}]', "has a `reasoning_content`"),
        (b'[{"role": "assistant", "content": "", "tool_calls": [1]}]', "calls tools"),
    ],
)
def test_a_file_that_is_no_conversation_is_refused_and_nothing_changes(
    run_shoal, script: Script, tmp_path: Path, content: bytes, wanted: str
) -> None:
    file = tmp_path / "chat.json"
    file.write_bytes(content)
    code, out, err = run_shoal("chat", "--quiet", stdin=lines("Hi", f"/load {file}", "/retry"))
    assert (code, out) == (1, "Paris.\nParis.\n")
    assert wanted.replace("FILE", str(file)) in err
    assert script.requests[0].prompt_ids == script.requests[1].prompt_ids
    assert run_shoal("chat", "--load", file).code == 1


def test_a_file_that_cannot_be_written_or_read_is_named(run_shoal, script: Script, tmp_path: Path) -> None:
    err = run_shoal("chat", "--quiet", stdin=lines("/save", f"/save {tmp_path}", "/load nowhere.json")).err
    assert "`/save` needs a file's name" in err
    assert f"cannot write `{tmp_path}`" in err
    assert "cannot read the conversation `nowhere.json`: No such file or directory" in err


def test_stats_say_what_the_last_reply_took(run_shoal, script: Script) -> None:
    err = run_shoal("chat", "--quiet", stdin=lines("/stats", "Hi", "Hi", "/stats")).err
    assert "there are no figures yet" in err
    last, everything = err.splitlines()[-2:]
    assert last.startswith(f"last: prompt: {len(script.requests[1].prompt_ids)} tokens, 3 of them from the cache; ")
    assert "reply: 6 tokens" in last and "finish: stop" in last
    assert everything.startswith("all 2 replies: 12 tokens; prompts: ")


def test_help_lists_every_command(run_shoal, script: Script) -> None:
    err = run_shoal("chat", "--quiet", stdin=lines("/help")).err
    for name in ("system", "effort", "thinking", "save", "load", "retry", "undo", "clear", "stats", "help", "quit"):
        assert f"\n  /{name}" in f"\n{err}"


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--effort", "much"), "the effort is `much`, expected "),
        (("--thinking", "loud"), "`--thinking` is `loud`, expected `show`, `fold` or `off`"),
        (("--top-p", "0"), "`top_p` is 0.0, expected above 0"),
        (("--url", "localhost"), "`--url` is `localhost`, expected it to begin with"),
        ((MINI, "--url", "http://localhost"), "expected no CHECKPOINT with it"),
    ],
)
def test_options_that_cannot_be_are_usage_errors(run_shoal, arguments: tuple[object, ...], wanted: str) -> None:
    code, out, err = run_shoal("chat", *arguments)
    assert (code, out) == (2, "")
    assert wanted in " ".join(err.replace("│", " ").split())


@pytest.mark.usefixtures("script")
def test_a_reply_that_was_cut_says_why(run_shoal, script: Script) -> None:
    script.finish = "length"
    assert "cut at the most tokens a reply may have (`--max-new-tokens`)" in run_shoal("chat", stdin=lines("Hi")).err


@pytest.mark.usefixtures("script")
def test_in_a_pipe_ctrl_c_ends_all(run_shoal, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_reply: LocalReply) -> Iterator[object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalReply, "__iter__", interrupted)
    code, out, _ = run_shoal("chat", stdin=lines("Hi", "Hi"))
    assert (code, out) == (130, "")


class Terminal:
    """`shoal chat` behind a pseudo-terminal."""

    def __init__(self, *arguments: object) -> None:
        self.seen = ""
        self._controller, worker = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shoal.cli", "chat", *map(str, arguments)],
            stdin=worker, stdout=worker, stderr=worker, close_fds=True, start_new_session=True,
            preexec_fn=_take_terminal, env={**os.environ, "TERM": "xterm", "INPUTRC": "/dev/null"},
        )  # fmt: skip
        os.close(worker)

    def type(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def wait_for(self, text: str, seconds: float = 60.0) -> None:
        """Until `text` was shown, behind what was waited for before."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self._controller], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self._controller, 4096).decode(errors="replace")
                except OSError:
                    raise AssertionError(self.seen) from None
        self.seen = self.seen.split(text, 1)[1]

    def press_until(self, keys: str, text: str) -> None:
        """Types `keys`, and Ctrl-C again as long as `text` does not come.

        readline may look for signals just before it begins to wait for keys; the next one tells of both.
        """
        for _ in range(8):
            self.type(keys)
            keys = "\003"
            with suppress(AssertionError):
                return self.wait_for(text, 2)
        raise AssertionError(self.seen)

    def interrupt(self) -> int:
        """Ctrl-C until the process ends; the first that its line editing notices should do."""
        for _ in range(6):
            self.wait_for("> ")
            self.type("\003")
            try:
                # Longer than closing takes: another would break that off.
                self.process.wait(6)
            except subprocess.TimeoutExpired:
                # readline may have looked for signals just before it began to wait for keys.
                self.seen += "> "
                continue
            break
        return self.close()

    def close(self) -> int:
        code = self.process.wait(60)
        os.close(self._controller)
        return code


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(MINI, "--effort", "50", "--history", tmp_path / "history")
    yield terminal
    if terminal.process.poll() is None:
        terminal.process.kill()
        terminal.close()


def test_in_a_terminal_ctrl_c_stops_the_reply_and_twice_at_the_prompt_leaves(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.wait_for("`/help` lists commands")
    terminal.type("\033[200~Tell me\nall\033[201~\r")
    # The random miniature thinks until it is stopped.
    terminal.wait_for("\033[2m")
    terminal.type("\003")
    terminal.wait_for("stopped")
    terminal.wait_for("> ")
    terminal.type("/thin\tfold\r")
    terminal.wait_for("thinking: fold")
    terminal.type("/undo\r")
    terminal.wait_for("taken back: Tell me")
    terminal.wait_for("> ")
    # Ctrl-C in a line, then another line: that was once, and once again.
    terminal.press_until("half a line\003", "Ctrl-C again, or Ctrl-D, leaves")
    terminal.type("/effort\r")
    terminal.wait_for("effort: 50")
    terminal.wait_for("> ")
    terminal.press_until("\003", "Ctrl-C again, or Ctrl-D, leaves")
    assert terminal.interrupt() == 0
    history = (tmp_path / "history").read_text()
    assert "Tell me" in history and "/undo" in history
    assert (tmp_path / "history").stat().st_mode & 0o77 == 0
