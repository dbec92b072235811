"""Fields that the official clients can send and that this server does not do, by protocol.

What an answer without it would not be what was asked is refused by name. What is about accounts, prices, places or
speed, or about tools and images that never arise here, has no effect; `docs/serving.md` says so of each.
"""

from collections.abc import Mapping
from typing import Any

from shoal.serve.errors import ApiError

_ACCOUNT = frozenset({"user", "safety_identifier", "service_tier"})
_CACHE = frozenset({"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"})

Refused = Mapping[str, str]
"""By a field's name: what to do instead."""

CHAT: Refused = {
    "audio": "answers are text.",
    "modalities": 'answers are text: leave it out, or send `["text"]`.',
    "moderation": "ask a server that moderates before or after this one.",
    "web_search_options": "nothing is searched here: offer a function in `tools` that does.",
}
CHAT_IDLE = _ACCOUNT | _CACHE | {"metadata", "prediction", "store", "verbosity"}

COMPLETIONS: Refused = {}
COMPLETIONS_IDLE = frozenset({"user"})

RESPONSES: Refused = {
    "conversation": "send the items as `input`, or go on from a response with `previous_response_id`.",
    "moderation": "ask a server that moderates before or after this one.",
    "prompt": "templates are not kept here: send the text as `instructions` and `input`.",
}
RESPONSES_IDLE = (
    _ACCOUNT
    | _CACHE
    | {"access_programs", "background_options", "context_management", "image", "max_tool_calls", "stream_options"}
    | {"truncation"}
)

MESSAGES: Refused = {
    "compaction": "summaries are not made by themselves: ask for one in `messages`.",
    "container": "no code runs here: offer a tool in `tools` that does.",
    "mcp_servers": "the server connects to nobody: offer their tools in `tools`.",
    "thread": "conversations are not kept here: send all of `messages`.",
}
MESSAGES_IDLE = frozenset(
    {"billing_policy", "cache_control", "context_management", "diagnostics", "fallback_credit_token", "fallbacks"}
    | {"inference_geo", "metadata", "service_tier", "speed", "user_profile_id", "workspace_id"}
)

_NOTHING: tuple[object, ...] = (None, False, "", [], {}, ["text"])


def refuse(value: Mapping[str, Any], refused: Refused) -> None:
    """Raises `ApiError` where a body asks for one of these; null, empty and `["text"]` ask for nothing."""
    for name, hint in refused.items():
        if value.get(name) not in _NOTHING:
            message = f"`{name}` is given, expected none: this server does not do it"
            raise ApiError(400, message, param=name, code="unsupported_parameter", hint=hint)


INCLUDABLE = (
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
"""What `include` of a response may name. The first is done, the second is there always, the others are of items that
never arise."""


def check_includes(names: list[str]) -> None:
    """Raises `ApiError` for one that nobody knows."""
    for index, name in enumerate(names):
        if name not in INCLUDABLE:
            wanted = ", ".join(f"`{each}`" for each in INCLUDABLE)
            param = f"include[{index}]"
            raise ApiError(400, f"`{param}` is `{name[:80]}`, expected one of {wanted}", param=param)
