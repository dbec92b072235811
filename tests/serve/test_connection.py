"""Clients that stall in the middle of a request hold nobody up, and are let go."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

import shoal.serve.server
from serve.conftest import LiveServer, running
from serve.scripted_engine import ScriptedEngine, say, wait_until
from shoal.serve.options import Limits, ServeOptions
from shoal.serve.served import ServedModel

BODY = b'{"messages": [{"role": "user", "content": "go"}], "thinking": false}'
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n" % len(BODY)


@pytest.fixture
def hasty(scripted_model: ServedModel) -> Iterator[LiveServer]:
    with running(ServeOptions(limits=Limits(head_seconds=0.4, body_seconds=0.8)), scripted_model) as server:
        yield server


@contextmanager
def connected(server: LiveServer) -> Iterator[socket.socket]:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        yield client


@pytest.mark.parametrize("sent", [b"", b"PO", HEAD[:60], HEAD])
def test_who_stalls_before_the_head_is_whole_is_hung_up_on(hasty: LiveServer, sent: bytes) -> None:
    with connected(hasty) as stalled:
        stalled.sendall(sent)
        assert httpx.get(f"{hasty.url}/health").status_code == 200
        assert stalled.recv(10) == b""
    wait_until(lambda: not hasty.server.server_state.connections)


def test_a_head_that_drips_in_has_no_longer(hasty: LiveServer) -> None:
    started = time.monotonic()
    with connected(hasty) as dripping, pytest.raises(OSError):
        for byte in HEAD:
            dripping.sendall(bytes([byte]))
            time.sleep(0.05)
    assert time.monotonic() - started < 2.5


def test_who_stalls_in_the_body_is_told_so(hasty: LiveServer, engine: ScriptedEngine) -> None:
    with connected(hasty) as stalled:
        stalled.sendall(HEAD + b"\r\n" + BODY[:20])
        assert stalled.recv(100).startswith(b"HTTP/1.1 408")
    assert engine.tickets == []


def test_a_client_that_takes_its_time_between_whole_requests_stays(hasty: LiveServer, engine: ScriptedEngine) -> None:
    with (
        httpx.Client(base_url=hasty.url, timeout=20) as client,
        client.stream(
            "POST", "/v1/chat/completions", content=BODY.replace(b"false}", b'false, "stream": true}')
        ) as answer,
    ):
        # An answer may take as long as it likes.
        time.sleep(0.6)
        say(engine.ticket(), [300], "stop")
        assert "[DONE]" in answer.read().decode()
        connections = set(hasty.server.server_state.connections)
        time.sleep(0.6)
        assert client.get("/health").status_code == 200
        assert set(hasty.server.server_state.connections) == connections


def test_a_server_that_ends_does_not_wait_for_who_never_reads(
    scripted_model: ServedModel, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shoal.serve.server, "_LAST_SECONDS", 0.2)
    content = BODY.replace(b"false}", b'false, "stream": true, "logprobs": true, "top_logprobs": 20}')
    with running(ServeOptions(send_seconds=100), scripted_model) as server, socket.socket() as deaf:
        host, port = server.url.removeprefix("http://").split(":")
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((host, int(port)))
        deaf.sendall(HEAD.replace(b"%d" % len(BODY), b"%d" % len(content)) + b"\r\n" + content)
        # More than the system keeps for a connection.
        say(engine.ticket(), [300] * 4000, logprobs=20)
        connections = server.server.server_state.connections
        wait_until(lambda: any(each.flow.write_paused for each in connections if isinstance(each, H11Protocol)))
        server.server.stop()
        # Not the 30 seconds that running requests have, nor the 100 in which a client has to read something.
        wait_until(lambda: not connections, 15)
    assert engine.drained == [30.0]
