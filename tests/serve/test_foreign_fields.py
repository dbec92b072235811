"""Every field of the official clients is done, refused by name, or documented as without effect."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from pydantic import BaseModel

from serve.conftest import LiveServer
from shoal.serve import foreign_fields as fields
from shoal.serve.chat_body import ChatBody
from shoal.serve.completion_body import CompletionBody
from shoal.serve.messages_body import CountBody, MessagesBody
from shoal.serve.responses_body import ResponsesBody

OPENAI, CLAUDE = openai.OpenAI(api_key="x"), anthropic.Anthropic(api_key="x")
# What the clients keep to themselves.
OWN = {"extra_headers", "extra_query", "extra_body", "timeout", "betas"}
DOCS = Path(__file__).parents[2] / "docs"

METHODS: list[tuple[Callable[..., Any], type[BaseModel], fields.Refused, frozenset[str]]] = [
    (OPENAI.chat.completions.create, ChatBody, fields.CHAT, fields.CHAT_IDLE),
    (OPENAI.completions.create, CompletionBody, fields.COMPLETIONS, fields.COMPLETIONS_IDLE),
    (OPENAI.responses.create, ResponsesBody, fields.RESPONSES, fields.RESPONSES_IDLE),
    (CLAUDE.messages.create, MessagesBody, fields.MESSAGES, fields.MESSAGES_IDLE),
    (CLAUDE.beta.messages.create, MessagesBody, fields.MESSAGES, fields.MESSAGES_IDLE),
    (CLAUDE.messages.count_tokens, CountBody, fields.MESSAGES, fields.MESSAGES_IDLE),
]


@pytest.mark.parametrize(("method", "body", "refused", "idle"), METHODS)
def test_no_field_of_a_client_is_ignored_in_silence(
    method: Callable[..., Any], body: type[BaseModel], refused: fields.Refused, idle: frozenset[str]
) -> None:
    sent = set(inspect.signature(method).parameters) - OWN
    done = set(body.model_fields)
    assert sent - done - set(refused) - idle == set()
    assert done & idle == set() == set(refused) & idle


def test_what_has_no_effect_is_documented() -> None:
    text = (DOCS / "serving.md").read_text() + (DOCS / "serving-agents.md").read_text()
    for idle in (fields.CHAT_IDLE, fields.COMPLETIONS_IDLE, fields.RESPONSES_IDLE, fields.MESSAGES_IDLE):
        assert [name for name in sorted(idle) if f"`{name}`" not in text] == []


BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "go"}], "input": "go", "max_tokens": 1}
CASES = [
    (path, name)
    for path, refused in {
        "/v1/chat/completions": fields.CHAT,
        "/v1/responses": fields.RESPONSES,
        "/v1/messages": fields.MESSAGES,
        "/v1/messages/count_tokens": fields.MESSAGES,
    }.items()
    for name in refused
]


@pytest.mark.parametrize(("path", "name"), CASES)
def test_what_is_refused_is_named_and_says_what_to_do(asker: httpx.Client, path: str, name: str) -> None:
    answer = asker.post(path, json=BODY | {name: {"type": "something"}})
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert message.startswith(f"`{name}` is given, expected none") and "hint: " in message


def test_what_asks_for_nothing_is_taken(http: httpx.Client, live: LiveServer) -> None:
    nothing = {"audio": None, "modalities": ["text"], "moderation": {}, "web_search_options": None, "thinking": False}
    assert http.post("/v1/chat/completions", json=BODY | nothing).status_code == 200
    nothing = {"conversation": None, "prompt": {}, "max_output_tokens": 1, "reasoning": {"effort": "none"}}
    assert http.post("/v1/responses", json=BODY | nothing).status_code == 200
    assert http.post("/v1/messages/count_tokens", json=BODY | {"mcp_servers": [], "container": None}).status_code == 200
