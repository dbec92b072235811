"""Whatever the description allows, and some that it does not, is answered and is no error of the server's own."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from serve.scripted_engine import ScriptedEngine, say
from shoal.assemble import MINIATURE
from shoal.config.layouts import load_config
from shoal.engine.request import Request
from shoal.engine.ticket import Ticket
from shoal.serve.app import create_app
from shoal.serve.options import ServeOptions
from shoal.serve.served import Served, ServedModel
from shoal.text.tokenizer import Tokenizer


class ReadyEngine(ScriptedEngine):
    """Answers at once, with two tokens, what a real one would take."""

    def submit(self, request: Request) -> Ticket:
        request.check(CONFIG, self.room)
        ticket = Ticket(request)
        say(ticket, [300, 301], "stop", request.options.logprobs)
        return ticket


CONFIG = load_config(MINIATURE)
# Not local: the client of the tests asks by a name of its own.
served = Served(ServeOptions(is_local=False))
served.open(ServedModel(ReadyEngine().as_engine(), Tokenizer.load(MINIATURE), CONFIG))
app = create_app(served)
schema = schemathesis.openapi.from_asgi("/openapi.json", app)
PATHS = ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize", "/v1/models", "/v1/models/{name}"]


@schema.include(path=PATHS).parametrize()
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
def test_no_request_is_an_error_of_the_server(case: schemathesis.Case) -> None:
    response = case.call(headers={"Host": "localhost"})
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    *("messages", "prompt", "tools", "tool_choice", "thinking", "stop", "n", "logit_bias", "response_format", "seed"),
    *("reasoning_effort", "chat_template_kwargs", "stream_options", "max_tokens", "logprobs", "tokens", "stream"),
)


@pytest.fixture(scope="module")
def local() -> TestClient:
    return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)


@pytest.mark.parametrize("path", PATHS[:4])
def test_no_body_is_an_error_of_the_server(local: TestClient, path: str) -> None:
    good: dict[str, Any] = {"messages": [{"role": "user", "content": "a"}], "prompt": "a", "tokens": [5]}

    @settings(max_examples=25)
    @given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
    def check(spoilt: dict[str, Any]) -> None:
        assert local.post(path, json=good | spoilt).status_code < 500

    check()
