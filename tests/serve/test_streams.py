"""Server-sent events: what a client reads while nothing is said yet, when something breaks, and when it leaves."""

import json
import socket
import threading
from typing import Any

import httpx
import openai
import pytest

from serve.conftest import LiveServer
from serve.scripted_engine import ScriptedEngine, say, wait_until
from shoal.engine.events import PromptEvent
from shoal.errors import CheckpointError

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "go"}], "thinking": False}
STREAM = BODY | {"stream": True}


def words(scripted: LiveServer, text: str) -> list[int]:
    return scripted.served.model.tokenizer.encode(text)


def test_headers_and_signs_of_life_come_before_the_prompt_is_read(
    asker: httpx.Client, engine: ScriptedEngine, scripted: LiveServer
) -> None:
    with asker.stream("POST", "/v1/chat/completions", json=STREAM) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = (line for line in answer.iter_lines() if line)
        assert next(lines) == ": waiting"
        assert next(lines) == ": waiting"
        engine.ticket().put(PromptEvent(2048, 9000, 1024))
        assert json.loads(next(line for line in lines if line != ": waiting")[6:])["choices"][0]["delta"]["role"]
        assert next(lines) == ": prompt 2048/9000 cached 1024"
        # Nothing new, and still a sign of life.
        assert next(lines) == ": prompt 2048/9000 cached 1024"
        say(engine.ticket(), words(scripted, "Hello"), "stop")
        data = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert "".join(each["choices"][0]["delta"].get("content", "") for each in data) == "Hello"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_its_request(
    asker: httpx.Client, engine: ScriptedEngine, scripted: LiveServer, path: str, stream: bool
) -> None:
    content = json.dumps(BODY | {"prompt": "go", "n": 2, "stream": stream}).encode()
    host, port = scripted.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as leaving:
        leaving.sendall(f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        leaving.sendall(content)
        say(engine.ticket(1), words(scripted, "H"))
        assert not engine.ticket().is_cancelled
    wait_until(lambda: all(ticket.is_cancelled for ticket in engine.tickets))
    assert asker.get("/health").status_code == 200


FIRST: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [{"object": "chat.completion.chunk", "role": "assistant"}],
    "/v1/messages": [{"type": "message_start", "cache_read_input_tokens": 3, "output_tokens": 0}],
    "/v1/responses": [
        {"type": "response.created", "status": "in_progress"},
        {"type": "response.in_progress", "status": "in_progress"},
    ],
}


@pytest.mark.parametrize("path", FIRST)
def test_the_first_event_of_a_protocol_comes_when_the_request_runs_and_not_with_its_first_token(
    asker: httpx.Client, engine: ScriptedEngine, path: str
) -> None:
    body = BODY | {"stream": True, "input": "go", "max_tokens": 5}
    if path == "/v1/messages":
        body["thinking"] = {"type": "disabled"}
    with asker.stream("POST", path, json=body) as answer:
        data = (line[6:] for line in answer.iter_lines() if line.startswith("data: ") and '"ping"' not in line)
        ticket = engine.ticket()
        ticket.put(PromptEvent(3, len(ticket.request.prompt_ids), 3))
        found = [json.loads(next(data)) for _ in FIRST[path]]
        # And no token has come yet.
        say(ticket, [], "length")
    for event, wanted in zip(found, FIRST[path], strict=True):
        flat = flattened(event)
        assert {name: flat[name] for name in wanted} == wanted
        assert flat.get("input_tokens", 0) in (0, len(ticket.request.prompt_ids) - 3)


def flattened(value: Any) -> dict[str, Any]:
    """All fields of an event, wherever they stand."""
    if isinstance(value, list):
        return {name: inner for each in value for name, inner in flattened(each).items()}
    if not isinstance(value, dict):
        return {}
    return {name: inner for each in value.values() for name, inner in flattened(each).items()} | value


def test_a_client_that_never_reads_blocks_nobody_and_is_let_go(
    asker: httpx.Client, engine: ScriptedEngine, scripted: LiveServer
) -> None:
    content = json.dumps(STREAM | {"logprobs": True, "top_logprobs": 20}).encode()
    host, port = scripted.url.removeprefix("http://").split(":")
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((host, int(port)))
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(content)}\r\n\r\n"
        deaf.sendall(head.encode() + content)
        # More than the system keeps for a connection.
        say(engine.ticket(), [300] * 4000, logprobs=20)
        other = asker.post("/tokenize", json={"prompt": "a"})
        assert other.status_code == 200
        wait_until(lambda: engine.ticket().is_cancelled)


def test_an_error_behind_the_headers_is_an_event_and_the_end(
    asker: httpx.Client, engine: ScriptedEngine, scripted: LiveServer
) -> None:
    with asker.stream("POST", "/v1/chat/completions", json=STREAM) as answer:
        say(engine.ticket(), words(scripted, "Hello"))
        engine.ticket().fail(CheckpointError("`model-1` was shortened", hint="download it again."))
        text = "".join(answer.iter_text())
    assert answer.status_code == 200
    event = text[text.index("event: error") :]
    error = json.loads(event.splitlines()[1].removeprefix("data: "))["error"]
    assert error["type"] == "server_error"
    assert error["message"] == "`model-1` was shortened\n\nhint: download it again."
    assert "[DONE]" not in text


def test_the_official_client_raises_an_error_that_comes_behind_the_headers(
    scripted: LiveServer, engine: ScriptedEngine
) -> None:
    with openai.OpenAI(base_url=f"{scripted.url}/v1", api_key="none", max_retries=0) as client:
        chunks = client.chat.completions.create(
            model="any", messages=BODY["messages"], stream=True, extra_body={"thinking": False}
        )
        engine.ticket().fail(CheckpointError("`model-1` was shortened"))
        with pytest.raises(openai.APIError, match="was shortened"):
            list(chunks)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_an_error_before_anything_was_sent_is_a_status(asker: httpx.Client, engine: ScriptedEngine, path: str) -> None:
    threading.Thread(target=lambda: engine.ticket().fail(CheckpointError("`model-1` was shortened"))).start()
    answer = asker.post(path, json=BODY | {"prompt": "go"})
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "`model-1` was shortened"


def test_text_that_ends_inside_a_character_is_shown_when_it_is_whole(
    asker: httpx.Client, engine: ScriptedEngine, scripted: LiveServer
) -> None:
    ids = words(scripted, "🐟")
    assert len(ids) > 1
    with asker.stream("POST", "/v1/chat/completions", json=STREAM) as answer:
        say(engine.ticket(), ids, "stop")
        data = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {")]
    assert [text for each in data if (text := each["choices"][0]["delta"].get("content"))] == ["🐟"]


def test_what_follows_a_closed_block_of_calls_ends_the_request(
    asker: httpx.Client, engine: ScriptedEngine, scripted: LiveServer
) -> None:
    block = '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
    tokenizer = scripted.served.model.tokenizer
    with asker.stream("POST", "/v1/chat/completions", json=STREAM | {"tools": [{"name": "f"}]}) as answer:
        say(engine.ticket(), tokenizer.encode_with_markers(block) + tokenizer.encode(" and so on"))
        text = "".join(answer.iter_text())
    assert engine.ticket().is_cancelled
    assert '"finish_reason": "tool_calls"' in text and "so on" not in text and "｜DSML｜" not in text


def test_what_followed_a_closed_block_of_calls_is_no_part_of_the_next_prompt(
    asker: httpx.Client, engine: ScriptedEngine, scripted: LiveServer
) -> None:
    block = '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
    tokenizer = scripted.served.model.tokenizer
    called, body = tokenizer.encode_with_markers(block), BODY | {"tools": [{"name": "f"}]}
    threading.Thread(target=lambda: say(engine.ticket(), [*called, *tokenizer.encode(" and")])).start()
    message = asker.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "done"}
    threading.Thread(target=lambda: say(engine.ticket(1), [], "stop")).start()
    asker.post("/v1/chat/completions", json=body | {"messages": [*BODY["messages"], message, result]})
    first, second = (engine.ticket(index).request.prompt_ids for index in range(2))
    assert second[: len(first) + len(called) + 1] == (*first, *called, tokenizer.eos_id)


def test_a_stop_string_ends_the_request(asker: httpx.Client, engine: ScriptedEngine, scripted: LiveServer) -> None:
    with asker.stream("POST", "/v1/chat/completions", json=STREAM | {"stop": ["lo, w"]}) as answer:
        say(engine.ticket(), words(scripted, "Hello, world, and so on"))
        data = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {")]
    assert "".join(each["choices"][0]["delta"].get("content", "") for each in data) == "Hel"
    assert data[-1]["choices"][0]["finish_reason"] == "stop"
    assert engine.ticket().is_cancelled
