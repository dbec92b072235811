"""A long prompt that is given up in the middle, in the engine and by a client that leaves, gives all of it back."""

import json
import random
import socket
from collections.abc import Iterator

import pytest

from serve.conftest import LiveServer, running
from serve.scripted_engine import wait_until
from shoal.api import Shoal, load
from shoal.engine.events import PromptEvent
from shoal.engine.request import Request
from shoal.serve.options import ServeOptions
from shoal.serve.served import ServedModel

TOKENS, CHUNK = 1800, 64


@pytest.fixture(scope="module")
def chunked() -> Iterator[Shoal]:
    with load(threads=1, prefill_chunk=CHUNK) as model:
        model.assembled.engine.start()
        yield model
        model.assembled.engine.close()


def prompt_ids(model: Shoal) -> list[int]:
    rng = random.Random(1)
    return [rng.randrange(300, model.config.vocab_size) for _ in range(TOKENS)]


def is_given_back(model: Shoal) -> bool:
    """Whether nothing runs, and no page or byte of the KV cache is held."""
    assembled = model.assembled
    metrics = assembled.engine.metrics()
    return assembled.engine.is_idle and assembled.pool.num_used == 0 and metrics.kv_used_nbytes == 0


def test_a_prompt_that_is_cancelled_between_two_chunks_gives_all_its_pages_back(chunked: Shoal) -> None:
    engine = chunked.assembled.engine
    before = engine.metrics().computed_tokens
    ticket = engine.submit(Request(tuple(prompt_ids(chunked))))
    for event in ticket:
        assert isinstance(event, PromptEvent) and event.done < TOKENS
        if event.done > 2 * CHUNK:
            assert chunked.assembled.pool.num_used > 0 < engine.metrics().kv_used_nbytes
            break
    # To leave the loop is to cancel.
    wait_until(lambda: is_given_back(chunked))
    assert 2 * CHUNK <= engine.metrics().computed_tokens - before < TOKENS // 2
    assert ticket.is_done


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_in_the_middle_of_its_prompt_gives_all_its_pages_back(
    chunked: Shoal, path: str, stream: bool
) -> None:
    engine = chunked.assembled.engine
    served_model = ServedModel(engine, chunked.tokenizer, chunked.config)
    text = "".join(f" {number}" for number in range(350))
    said = [{"role": "user", "content": text}]
    asked = {"/v1/completions": {"prompt": text}, "/v1/responses": {"input": text}}.get(path, {"messages": said})
    body = {**asked, "max_output_tokens" if path == "/v1/responses" else "max_tokens": 9, "stream": stream}
    with running(ServeOptions(), served_model) as server:
        before = engine.metrics()
        leave_after_a_chunk(server, path, body, chunked)
        wait_until(lambda: is_given_back(chunked))
        metrics = engine.metrics()
    assert metrics.generated_tokens == before.generated_tokens
    computed, prompt = (getattr(metrics, name) - getattr(before, name) for name in ("computed_tokens", "prompt_tokens"))
    assert 0 < computed < prompt
    assert metrics.ended["cancelled"] == before.ended["cancelled"] + 1


def leave_after_a_chunk(server: LiveServer, path: str, body: dict[str, object], model: Shoal) -> None:
    engine, content = model.assembled.engine, json.dumps(body).encode()
    computed = engine.metrics().computed_tokens
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as leaving:
        leaving.sendall(f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        leaving.sendall(content)
        wait_until(lambda: engine.metrics().computed_tokens > computed)
