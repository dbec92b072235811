"""`shoal serve`: what it refuses before anything is loaded, and a whole life of it in a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from cli.conftest import RunShoal
from serve.scripted_engine import wait_until
from shoal.errors import OptionError
from shoal.serve.api_keys import read_keys
from shoal.serve.listening import listen, resolve, url_of


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--host", "nosuch.invalid"), "the host `nosuch.invalid` does not resolve"),
        (("--host", "a" * 300), "does not resolve"),
        (("--host", "0.0.0.0", "--port", "0"), "`--host 0.0.0.0` lets other machines ask, and there is no key"),
        (("--host", "192.0.2.1", "--allow-open"), "`192.0.2.1` is no address of this machine"),
        (("--api-key-file", "/no/such"), "cannot read the API keys of `/no/such`: No such file"),
        (("--api-key", "a key"), "an API key of 5 characters cannot be sent"),
        (("--served-model-name", " "), "the served model's name is empty"),
        (("--max-body", "12B"), "the largest body is 12 bytes, expected 1,024 or more"),
    ],
)
def test_what_cannot_be_served_is_a_sentence(run_shoal: RunShoal, arguments: tuple[str, ...], wanted: str) -> None:
    outcome = run_shoal("serve", *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert wanted in outcome.err


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--port", "70000"), "--port"),
        (("--cors", "chat.example"), "is no origin"),
        (("--max-body", "much"), "much"),
        (("--api-key", "a", "--api-key-file", "b"), "expected one of them"),
        (("--max-running", "0"), "--max-running"),
    ],
)
def test_what_is_no_option_is_a_usage_error(run_shoal: RunShoal, arguments: tuple[str, ...], wanted: str) -> None:
    outcome = run_shoal("serve", *arguments)
    assert outcome.code == 2 and wanted in outcome.err


def test_a_port_in_use_is_a_sentence(run_shoal: RunShoal) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        outcome = run_shoal("serve", "--port", other.getsockname()[1])
    assert outcome.code == 1
    assert f"port {other} of" not in outcome.err and "is in use" in outcome.err and "`--port`" in outcome.err


def test_keys_are_the_lines_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nsk-one\n\n  sk-two  \n")
    assert read_keys(file) == ("sk-one", "sk-two")
    for content in (b"", b"# none\n", b"\xff\xfe", "sk-ö".encode(), b"x" * 70_000):
        file.write_bytes(content)
        with pytest.raises(OptionError):
            read_keys(file)


def test_an_address_is_said_as_it_can_be_asked() -> None:
    with listen(resolve("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert url_of(listening, "0.0.0.0") == url_of(listening, "127.0.0.1") == f"http://127.0.0.1:{port}"
        assert url_of(listening, "::") == f"http://[::1]:{port}"
    assert resolve("localhost", 1).is_local and not resolve("0.0.0.0", 1).is_local


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    environment = {**os.environ, "SHOAL_API_KEY": "sk-environment", "OMP_NUM_THREADS": "1"}
    with ExitStack() as stack:

        def run(*options: object) -> "subprocess.Popen[str]":
            command = [sys.executable, "-m", "shoal.cli", "serve", "--port", "0", "--threads", "1", *map(str, options)]
            running = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
            )
            stack.enter_context(running)
            stack.callback(running.kill)
            return running

        yield run


@contextmanager
def ready(process: "subprocess.Popen[str]") -> Iterator[httpx.Client]:
    """A client of it, once it answers."""
    assert process.stderr is not None
    url = process.stderr.readline().split()[2].rstrip(";")
    with httpx.Client(base_url=url, timeout=120, headers={"Authorization": "Bearer sk-environment"}) as client:
        deadline = time.monotonic() + 120
        while client.get("/ready").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield client


ENDLESS = {"prompt": "Once", "temperature": 1, "seed": 1, "max_tokens": 2000, "stream": True, "logit_bias": {"1": -100}}


def test_a_whole_life(start: Start) -> None:
    process = start("--shutdown-seconds", 1)
    with ready(process) as client:
        url = str(client.base_url).rstrip("/")
        assert httpx.get(f"{url}/v1/models").status_code == 401
        with client.stream("POST", "/v1/completions", json=ENDLESS) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith("data: "))
            next(lines)
            # The running request has a second; then it is cut, and has an end all the same.
            process.send_signal(signal.SIGTERM)
            *_, last, done = lines
    assert done == "data: [DONE]"
    assert json.loads(last[6:])["choices"][0]["finish_reason"] == "length"
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "")
    assert f"serving deepseek-v4.1-flash at {url}" in err and err.endswith("stopped\n")
    assert "Traceback" not in err


def test_a_second_signal_cuts_what_runs_and_all_is_kept(start: Start, tmp_path: Path) -> None:
    process = start("--shutdown-seconds", 100, "--cache-dir", tmp_path)
    with ready(process) as client:
        asked = ENDLESS | {"stream_options": {"include_usage": True}}
        with client.stream("POST", "/v1/completions", json=asked) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith("data: "))
            next(lines)
            process.send_signal(signal.SIGINT)
            wait_until(lambda: refuses(str(client.base_url)))
            # It has 100 seconds, and goes on.
            for _ in range(3):
                assert json.loads(next(lines)[6:])["choices"][0]["finish_reason"] is None
            process.send_signal(signal.SIGTERM)
            *_, last, counts, done = lines
    assert done == "data: [DONE]"
    assert json.loads(last[6:])["choices"][0]["finish_reason"] == "length"
    usage = json.loads(counts[6:])["usage"]
    assert usage["completion_tokens"] < 1500
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err.endswith("stopped\n") and "Traceback" not in err
    # What was said so far is on the disk, to the last token but one, which was never fed.
    lengths = [int(file.name.split("-")[1]) for file in tmp_path.rglob("*.kv")]
    assert max(lengths) >= usage["total_tokens"] - 1


def refuses(url: str) -> bool:
    """Whether nobody listens there any more."""
    try:
        httpx.get(f"{url}/health")
    except httpx.ConnectError:
        return True
    return False
