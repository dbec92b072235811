"""One live server on a free port for all tests of a session: the built-in miniature, behind real sockets."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import openai
import pytest

from serve.scripted_engine import ScriptedEngine
from shoal.api import Shoal, load
from shoal.assemble import MINIATURE
from shoal.config.layouts import load_config
from shoal.serve.listening import listen, resolve, url_of
from shoal.serve.options import ServeOptions
from shoal.serve.served import Served, ServedModel
from shoal.serve.server import Server
from shoal.text.tokenizer import Tokenizer

KEY = "sk-of-the-tests"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.import_plugin("schemathesis.pytest.plugin")


@dataclass(frozen=True)
class LiveServer:
    """A server that answers, and what it is made of."""

    url: str
    served: Served
    server: Server
    lines: list[str]


@contextmanager
def running(options: ServeOptions, model: ServedModel | None) -> Iterator[LiveServer]:
    """A server of its own thread until the end of the context; without a model it goes on loading."""
    listening = listen(resolve("127.0.0.1", 0))
    served, lines = Served(options), list[str]()
    if model is not None:
        served.open(model)
    server = Server(served, lines.append)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    url = url_of(listening, "127.0.0.1")
    deadline = time.monotonic() + 60
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    try:
        yield LiveServer(url, served, server, lines)
    finally:
        server.should_exit = True
        # The engine is the session's: it goes on without this server.
        served._model = None
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def miniature() -> Iterator[Shoal]:
    with load(threads=1) as model:
        model.assembled.engine.start()
        yield model
        model.assembled.engine.close()


@pytest.fixture(scope="session")
def served_model(miniature: Shoal) -> ServedModel:
    return ServedModel(miniature.assembled.engine, miniature.tokenizer, miniature.config)


@pytest.fixture(scope="session")
def live(served_model: ServedModel) -> Iterator[LiveServer]:
    options = ServeOptions(api_keys=(KEY,), keep_alive=0.2, model_name="miniature")
    with running(options, served_model) as server:
        yield server


@pytest.fixture
def http(live: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=live.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as client:
        yield client


@pytest.fixture
def client(live: LiveServer) -> Iterator[openai.OpenAI]:
    """The official client, which must not repeat what failed."""
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key=KEY, max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(MINIATURE)


@pytest.fixture
def scripted_model(engine: ScriptedEngine, tokenizer: Tokenizer) -> ServedModel:
    return ServedModel(engine.as_engine(), tokenizer, load_config(MINIATURE))


@pytest.fixture
def scripted(scripted_model: ServedModel) -> Iterator[LiveServer]:
    """A server without a key whose engine does what the test says."""
    with running(ServeOptions(keep_alive=0.05, send_seconds=1.0), scripted_model) as server:
        yield server


@pytest.fixture
def asker(scripted: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=scripted.url, timeout=30) as client:
        yield client
