"""Who may ask, what a request may be, and what is said to those that come too early, too late or too many."""

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from serve.conftest import LiveServer, running
from serve.scripted_engine import ScriptedEngine, say, wait_until
from shoal.errors import CheckpointError, EngineStoppedError, QueueFullError
from shoal.serve.guard import is_loopback
from shoal.serve.metrics import untold
from shoal.serve.options import Limits, ServeOptions
from shoal.serve.served import ServedModel

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "go"}], "thinking": False}
KEYS = ("sk-one", "sk-two")


@pytest.fixture
def locked(scripted_model: ServedModel) -> Iterator[httpx.Client]:
    options = ServeOptions(api_keys=KEYS, origins=("https://chat.example",))
    with running(options, scripted_model) as server, httpx.Client(base_url=server.url) as client:
        yield client


def test_each_key_opens_in_either_header(locked: httpx.Client) -> None:
    for key in KEYS:
        for headers in ({"Authorization": f"Bearer {key}"}, {"authorization": f"bearer  {key}"}, {"X-Api-Key": key}):
            assert locked.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer sk-on"},
        {"Authorization": "Bearer sk-one2"},
        {"Authorization": "Basic sk-one"},
        {"X-Api-Key": "sk-three"},
        {"Authorization": "Bearer sk-öne".encode("latin-1")},
    ],
)
@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/v1/messages", "/nothing"])
def test_nothing_else_does(locked: httpx.Client, headers: dict[str, Any], path: str) -> None:
    answer = locked.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "API key" in answer.json()["error"]["message"]
    assert "sk-one" not in answer.text


def test_whoever_watches_needs_no_key(locked: httpx.Client) -> None:
    assert locked.get("/health").json() == {"status": "ok", "model": "deepseek-v4.1-flash"}
    assert locked.get("/ready").status_code == 200


def test_a_page_that_is_allowed_is_told_so_even_of_an_error(locked: httpx.Client) -> None:
    headers = {"Origin": "https://chat.example", "Access-Control-Request-Method": "POST"}
    headers |= {"Access-Control-Request-Headers": "authorization"}
    asked = locked.options("/v1/chat/completions", headers=headers)
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == "https://chat.example"
    refused = locked.post("/v1/chat/completions", headers=headers, json=BODY)
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://chat.example"


def test_a_page_of_a_stranger_may_not_ask(asker: httpx.Client, engine: ScriptedEngine) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        answer = asker.post("/v1/chat/completions", headers={"Origin": origin}, json=BODY)
        assert answer.status_code == 403
        assert "--cors ORIGIN" in answer.json()["error"]["message"]
        assert "access-control-allow-origin" not in answer.headers
    assert engine.tickets == []
    own = str(asker.base_url).rstrip("/")
    assert asker.get("/v1/models", headers={"Origin": own}).status_code == 200


def test_a_name_that_is_made_to_point_here_is_refused_without_a_key(asker: httpx.Client) -> None:
    for host in ("evil.example", "evil.example:80", "10.0.0.1"):
        assert asker.get("/v1/models", headers={"Host": host}).status_code == 403
    for host in ("localhost", "localhost:8000", "127.0.0.1:9", "[::1]:8000"):
        assert asker.get("/v1/models", headers={"Host": host}).status_code == 200


def test_with_a_key_any_name_may_point_here(locked: httpx.Client) -> None:
    headers = {"Host": "chat.example", "Authorization": "Bearer sk-one"}
    assert locked.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("host", "is_one"),
    [("localhost", True), ("a.localhost", True), ("127.8.8.8", True), ("::1", True), ("0.0.0.0", False), ("x", False)],
)
def test_loopback_is_this_machine_alone(host: str, is_one: bool) -> None:
    assert is_loopback(host) is is_one


@pytest.fixture
def small(scripted_model: ServedModel) -> Iterator[LiveServer]:
    limits = Limits(2048, json_depth=16, messages=3, tools=2, schema_nbytes=200, body_seconds=0.3)
    with running(ServeOptions(limits=limits), scripted_model) as server:
        yield server


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"[]", 400, "invalid_json"),
        (b'"a"', 400, "invalid_json"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b'{"n": NaN}', 400, "invalid_json"),
        (b'{"n": ' + b"9" * 1900 + b"}", 400, "invalid_value"),
        (b"[" * 2000, 400, "too_deep"),
        (b'{"a":' * 17 + b"1" + b"}" * 17, 400, "too_deep"),
        (b'{"a": "' + b"x" * 4096 + b'"}', 413, "body_too_large"),
        (json.dumps({"messages": [{}] * 4}).encode(), 400, None),
        (json.dumps(BODY | {"tools": [{"name": "a"}] * 3}).encode(), 400, None),
        (json.dumps(BODY | {"tools": [{"name": "a" * 200}]}).encode(), 400, "schema_too_large"),
        (json.dumps(BODY | {"response_format": {"schema": "a" * 200}}).encode(), 400, "schema_too_large"),
    ],
)
@pytest.mark.parametrize("declares", [True, False])
def test_a_body_beyond_the_limits_is_refused(
    small: LiveServer, content: bytes, status: int, code: str | None, declares: bool
) -> None:
    # Without a length it comes in chunks.
    sent: Any = content if declares else iter([content[:10], content[10:]])
    answer = httpx.post(f"{small.url}/v1/chat/completions", content=sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text


def test_a_body_that_does_not_come_is_not_waited_for(small: LiveServer) -> None:
    host, port = small.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as slow:
        slow.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99\r\n\r\n{{".encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_headers_beyond_64_kib_are_refused(small: LiveServer) -> None:
    answer = httpx.get(f"{small.url}/health", headers={"x": "a" * 70_000})
    # In one piece it reaches us; what trickles in is cut off by the protocol's reader.
    assert (answer.status_code, answer.json()["error"]["code"]) == (431, "headers_too_large")


def test_a_full_queue_says_when_to_come_again(asker: httpx.Client, engine: ScriptedEngine) -> None:
    engine.refusal = QueueFullError("64 requests wait already, expected fewer than 64")
    for stream in (True, False):
        answer = asker.post("/v1/chat/completions", json=BODY | {"stream": stream})
        assert answer.status_code == 429
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert answer.json()["error"]["code"] == "queue_full"


def test_of_several_answers_none_runs_where_not_all_can(asker: httpx.Client, engine: ScriptedEngine) -> None:
    submit = engine.submit

    def refuse_the_third(request: Any) -> Any:
        if len(engine.tickets) == 2:
            raise QueueFullError("2 requests wait already, expected fewer than 2")
        return submit(request)

    engine.submit = refuse_the_third  # type: ignore[method-assign]
    assert asker.post("/v1/chat/completions", json=BODY | {"n": 3}).status_code == 429
    assert [ticket.is_cancelled for ticket in engine.tickets] == [True, True]


def test_a_stopped_engine_is_seen_by_those_that_ask_and_those_that_watch(
    asker: httpx.Client, engine: ScriptedEngine
) -> None:
    engine.refusal = engine.problem = EngineStoppedError("the engine stopped: KeyError: 3")
    assert asker.post("/v1/chat/completions", json=BODY).status_code == 503
    for path in ("/health", "/ready"):
        answer = asker.get(path)
        assert answer.status_code == 503
        assert answer.json() == {"status": "failed", "problem": "the engine stopped: KeyError: 3"}


def test_while_the_model_is_loaded_the_server_lives_and_is_not_ready() -> None:
    with running(ServeOptions(), None) as server, httpx.Client(base_url=server.url) as client:
        server.served.loading = "loading: 1.00 of 2.00 GiB"
        assert client.get("/health").json()["status"] == "loading"
        assert client.get("/ready").json() == {"status": "loading", "progress": "loading: 1.00 of 2.00 GiB"}
        answer = client.post("/v1/chat/completions", json=BODY)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "1.00 of 2.00 GiB" in answer.json()["error"]["message"]
        assert client.get("/v1/models").status_code == 200
        server.served.fail(CheckpointError("`model-1` is absent"))
        assert client.get("/health").status_code == 503


def test_a_server_that_ends_takes_nothing_new(asker: httpx.Client, scripted: LiveServer) -> None:
    scripted.served.is_draining = True
    assert asker.get("/ready").status_code == 503
    answer = asker.post("/v1/chat/completions", json=BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")


def test_what_is_not_there_is_said(asker: httpx.Client) -> None:
    assert asker.get("/nothing").json()["error"]["code"] == "not_found"
    answer = asker.get("/v1/chat/completions")
    assert answer.status_code == 405 and answer.json()["error"]["type"] == "invalid_request_error"


def test_the_log_has_counts_and_never_text(scripted_model: ServedModel, engine: ScriptedEngine) -> None:
    with running(replace(ServeOptions(), log_requests=True), scripted_model) as server:
        with httpx.Client(base_url=server.url) as client:
            body = {"messages": [{"role": "user", "content": "my secret"}], "stream": True, "thinking": False}
            with client.stream("POST", "/v1/chat/completions?q=hidden", json=body) as answer:
                say(engine.ticket(), scripted_model.tokenizer.encode("your answer"), "stop")
                answer.read()
            wait_until(lambda: bool(server.lines))
            metrics = client.get("/metrics").text
        assert "POST /v1/chat/completions 200" in server.lines[0] and "prompt" in server.lines[0]
        assert not any(word in "".join(server.lines) for word in ("secret", "your", "hidden"))
    assert 'shoal_http_requests_total{route="/v1/chat/completions",status="200"} 1.0' in metrics
    assert "secret" not in metrics


def test_the_engines_figures_are_all_told(asker: httpx.Client) -> None:
    assert untold() == set()
    text = asker.get("/metrics").text
    for name in ("shoal_waiting", "shoal_first_token_seconds_bucket", "shoal_cached_tokens_total", "shoal_running"):
        assert name in text
