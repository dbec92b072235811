import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from miniature import MINI
from shoal.assemble import MINIATURE
from shoal.cli import ticker
from shoal.engine.engine import PromptProgress
from shoal.engine.events import TokenEvent
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import FileChangedError
from shoal.text.chat import render_chat
from shoal.text.tokenizer import Tokenizer

SHOAL = [sys.executable, "-m", "shoal.cli", "generate"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(MINIATURE)


@pytest.fixture
def stats(tmp_path: Path) -> Path:
    return tmp_path / "stats.json"


def read(stats: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads(stats.read_text(encoding="utf-8"))
    return content


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What reached the engine, which answers with tokens 7 and 8 at once."""
    seen: list[Request] = []

    def stream(self, request: Request, progress: object) -> Iterator[TokenEvent]:
        seen.append(request)
        return iter([TokenEvent(7, None, 2.0), TokenEvent(8, "length", 0.5)])

    monkeypatch.setattr("shoal.engine.engine.Engine.stream", stream)
    return seen


def test_the_answer_is_all_of_stdout_and_the_rest_is_on_stderr(run_shoal, stats: Path) -> None:
    code, out, err = run_shoal("generate", MINI, "--prompt", "Hi", "--max-new-tokens", 2, "--stats", stats)
    content = read(stats)
    assert (code, out) == (0, f"{content['text']}\n")
    lines = [line for line in err.splitlines() if "so far" not in line]
    assert lines[0].startswith("loaded: 337 tensors read, 964 left, 267 ignored, ")
    classes = ["memory", "  dense weights", "  KV cache", "  activations", "  experts", "  Engram rows"]
    assert [line[: len(name)] for line, name in zip(lines[1:], classes, strict=False)] == classes
    summary = lines[1 + len(classes) :]
    assert summary[0].startswith(f"prompt: {len(content['prompt_ids'])} tokens; prefill: ")
    assert summary[1].startswith("generated: 2 tokens, finish: length; decode: 1 steps in ")
    assert re.fullmatch(
        r"Engram: [\d,]+ rows, \d+ % in memory; [\d,]+ reads of \d+\.\d MiB, waited \d+\.\d\d s", summary[2]
    )
    assert len(summary) == 3
    assert content["engram"]["rows"] > 0


@pytest.mark.usefixtures("requests")
def test_without_a_checkpoint_the_first_line_says_what_answers(run_shoal) -> None:
    err = run_shoal("generate", "--ids", "0,5").err
    assert err.startswith("no CHECKPOINT given: this is the built-in miniature, ")


@pytest.mark.usefixtures("requests")
def test_stats_say_everything_once(run_shoal, stats: Path) -> None:
    run_shoal("generate", MINI, "--ids", "0,5", "--stats", stats)
    content = read(stats)
    load, budget = content.pop("load"), content.pop("budget")
    assert budget["dense"] > 0 and budget["experts"] is None
    assert [token["engram"]["rows"] for token in content.pop("tokens")] == [0, 0]
    assert content.pop("engram") == {"rows": 0, "hits": 0, "reads": 0, "nbytes_read": 0, "stall_seconds": 0.0}
    assert content == {
        "text": Tokenizer.load(MINI).decode([7, 8]),
        "token_ids": [7, 8],
        "finish_reason": "length",
        "prompt_ids": [0, 5],
        "timings": {"prefill_seconds": 2.0, "decode_seconds": 0.5, "decode_steps": 1},
    }
    assert (load["read"], load["left"], load["ignored"]) == (337, 964, 267)
    assert list(stats.parent.iterdir()) == [stats]


def test_a_small_budget_is_told_in_full_and_counted_token_by_token(run_shoal, stats: Path) -> None:
    plain = run_shoal("generate", MINI, "--prompt", "Hi", "--max-new-tokens", 3).out
    refused = run_shoal("generate", MINI, "--prompt", "Hi", "--memory", "8MiB")
    assert (refused.code, refused.out) == (1, "")
    smallest = re.search(r"would do is ([\d.]+ \w+)", refused.err)[1]
    arguments = ("--prompt", "Hi", "--max-new-tokens", 3, "--memory", smallest, "--stats", stats)
    code, out, err = run_shoal("generate", MINI, *arguments)
    assert (code, out) == (0, plain)
    assert re.search(r"experts: \d+ of \d+ in [\d.,]+ (MiB|B), the others from the shards", err)
    content = read(stats)
    tokens = content["tokens"]
    assert len(tokens) == 3 and all(token["experts"]["misses"] > 0 for token in tokens)
    for field in ("hits", "misses", "reads", "read_nbytes"):
        assert sum(token["experts"][field] for token in tokens) == content["experts"][field]
    assert content["budget"]["memory"] < 1 << 30


@pytest.mark.usefixtures("requests")
def test_quiet_leaves_stderr_empty(run_shoal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "FIRST_SECONDS", 0.0)
    code, out, err = run_shoal("generate", "--ids", "0,5", "--quiet")
    assert (code, err) == (0, "")
    assert out


def test_a_long_prefill_and_a_long_load_say_so(run_shoal, monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(self, request: Request, progress: PromptProgress) -> Iterator[TokenEvent]:
        progress(1, 2)
        time.sleep(0.2)
        yield TokenEvent(7, "length", 0.2)

    monkeypatch.setattr("shoal.engine.engine.Engine.stream", stream)
    monkeypatch.setattr(ticker, "FIRST_SECONDS", 0.0)
    err = run_shoal("generate", "--ids", "0,5").err
    assert "loading" in err
    # Whether the first line comes before or after the first layer is the clock's.
    assert re.search(r"reading the prompt: [01] of 2 tokens, 0 s so far\n", err)


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["--prompt", "Hé\n"], ""),
        (["--prompt-file", "FILE"], ""),
        (["-"], "Hé\n"),
        ([str(MINIATURE), "-"], "Hé\n"),
    ],
)
def test_text_of_every_source_gets_one_begin_of_sentence(
    run_shoal, requests, tmp_path: Path, tokenizer: Tokenizer, arguments: list[str], stdin: str
) -> None:
    (tmp_path / "prompt").write_text("Hé\n", encoding="utf-8")
    arguments = [str(tmp_path / "prompt") if argument == "FILE" else argument for argument in arguments]
    run_shoal("generate", *arguments, stdin=stdin.encode())
    assert requests[0].prompt_ids == (0, *tokenizer.encode("Hé\n"))


def test_ids_are_used_as_they_are(run_shoal, requests) -> None:
    run_shoal("generate", "--ids", "5, 6")
    assert requests[0].prompt_ids == (5, 6)


def test_chat_is_one_user_message_without_thinking(run_shoal, requests, tokenizer: Tokenizer) -> None:
    run_shoal("generate", "--chat", "--prompt", "Hi")
    assert list(requests[0].prompt_ids) == render_chat(tokenizer, [{"role": "user", "content": "Hi"}])
    assert requests[0].prompt_ids.count(0) == 1


def test_options_reach_the_model(run_shoal, monkeypatch) -> None:
    calls = []

    def load(path, **options):
        calls.append((path, options))
        raise KeyboardInterrupt

    monkeypatch.setattr("shoal.api.load", load)
    code, _, _ = run_shoal(
        *(
            "generate",
            MINIATURE,
            "--prompt",
            "a",
            "--expert-memory",
            "3MiB",
            "--no-prefetch",
            "--resident-engram",
            "--engram-memory",
            "2MiB",
            "--threads",
            2,
            "--prefill-chunk",
            5,
            "--also",
            "one",
            "--also",
            "two",
        )
    )
    assert code == 130
    ((path, options),) = calls
    assert path == MINIATURE
    assert (options["expert_memory"], options["resident_engram"], options["threads"]) == (3 << 20, True, 2)
    assert not options["prefetch"]
    assert (options["prefill_chunk"], options["engram_memory"]) == (5, 2 << 20)
    assert options["also"] == [Path("one"), Path("two")]


def test_sampling_options_reach_the_engine(run_shoal, requests) -> None:
    run_shoal(*("generate", "--ids", "0,5", "--temperature", 8, "--top-p", 0.5, "--seed", 3, "--max-new-tokens", 9))
    run_shoal("generate", "--ids", "0,5")
    assert [request.options for request in requests] == [SamplingOptions(9, 8.0, 0.5, 3), SamplingOptions()]


def test_an_error_in_the_middle_keeps_what_was_printed(run_shoal, monkeypatch) -> None:
    def stream(self, request: Request, progress: object) -> Iterator[TokenEvent]:
        yield TokenEvent(7, None, 0.1)
        raise FileChangedError("`a` vanished")

    monkeypatch.setattr("shoal.engine.engine.Engine.stream", stream)
    code, out, err = run_shoal("generate", "--ids", "0,5")
    assert (code, out) == (1, f"{Tokenizer.load(MINIATURE).decode([7])}\n")
    assert err.endswith("error: `a` vanished\n")


def test_control_c_keeps_what_was_printed_and_exits_with_130(stats: Path) -> None:
    with subprocess.Popen(
        [*SHOAL, str(MINI), "--ids", "0,5", "--max-new-tokens", "1000", "--stats", str(stats)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=60)
    assert process.returncode == 130
    content = read(stats)
    assert content["finish_reason"] == "interrupted"
    assert (first + rest).decode() == f"{content['text']}\n"
    assert b"finish: interrupted" in err
    assert b"Traceback" not in err


def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    with subprocess.Popen(
        [*SHOAL, str(MINI), "--ids", "0,5", "--max-new-tokens", "1000", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=60)
    assert (process.returncode, err) == (1, b"")


def test_a_terminal_that_lacks_a_character_shows_another(run_shoal, tokenizer: Tokenizer, monkeypatch) -> None:
    events = [TokenEvent(token_id, None, 0.1) for token_id in tokenizer.encode("aé")]
    monkeypatch.setattr("shoal.engine.engine.Engine.stream", lambda self, request, progress: iter(events))
    terminal = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(terminal, encoding="ascii"))
    assert run_shoal("generate", "--ids", "0,5").code == 0
    assert terminal.getvalue() == b"a?\n"


def test_a_budget_for_experts_is_said_and_counted_and_changes_no_word(run_shoal, stats: Path, tmp_path: Path) -> None:
    routing, profile = tmp_path / "routing.jsonl", tmp_path / "profile.json"
    options = "--ids", "0,5,6", "--max-new-tokens", 3
    plain = run_shoal("generate", *options)
    kept = "--expert-profile", profile, "--record-routing", routing
    code, out, err = run_shoal("generate", *options, "--expert-memory", "1MiB", *kept, "--stats", stats)
    assert (code, out) == (0, plain.out)
    assert " MiB, the others from the shards\n" in err and "% in memory, " in err
    experts = read(stats)["experts"]
    asked = [len(json.loads(line)["experts"]) for line in routing.read_text().splitlines()]
    # A line of each of six layers for the prompt and for each step after it.
    assert len(asked) == 3 * 6
    assert experts["hits"] + experts["misses"] == sum(asked)
    assert profile.exists()
    assert "experts: all in the shards" in plain.err


def test_what_is_recorded_is_written_after_an_interrupt_too(run_shoal, tmp_path: Path, monkeypatch) -> None:
    def stream(self, request: Request, progress: object) -> Iterator[TokenEvent]:
        yield TokenEvent(7, None, 0.1)
        raise KeyboardInterrupt

    monkeypatch.setattr("shoal.engine.engine.Engine.stream", stream)
    assert run_shoal("generate", "--ids", "0,5", "--record-routing", tmp_path / "r.jsonl").code == 130
    assert (tmp_path / "r.jsonl").exists()


def test_a_budget_that_holds_no_expert_is_refused(run_shoal) -> None:
    code, _, err = run_shoal("generate", "--ids", "0,5", "--expert-memory", "5k")
    assert code == 1
    assert "error: 5,120 bytes of memory for experts hold none, expected at least" in err
