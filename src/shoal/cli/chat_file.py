"""A conversation as a file: a JSON list of Chat Completions messages, so that other programs can read it."""

import json
from collections.abc import Sequence
from pathlib import Path

from shoal.cli.chat_reply import ChatMessage
from shoal.cli.json_output import write_json
from shoal.errors import PromptError

MOST_NBYTES = 64 * 2**20
_ROLES = ("system", "user", "assistant")


def save_messages(file: Path, messages: Sequence[ChatMessage]) -> None:
    """Write them, whole or not at all. Raises `OptionError` where that cannot be done; the old file stays."""
    write_json(file, list(messages))


def load_messages(file: Path) -> list[ChatMessage]:
    """The messages of a file that `save_messages` wrote, or of a request body. Raises `PromptError`: what, where."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_NBYTES + 1)
    except OSError as error:
        raise PromptError(f"cannot read the conversation `{file}`: {error.strerror}") from None
    if len(content) > MOST_NBYTES:
        raise PromptError(f"the conversation `{file}` is over {MOST_NBYTES} bytes, expected a chat's messages")
    try:
        found = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise PromptError(f"the conversation `{file}` is not JSON: {error}") from None
    messages = found.get("messages") if isinstance(found, dict) else found
    if not isinstance(messages, list) or not messages:
        raise PromptError(
            f"the conversation `{file}` has no messages, expected a list of objects with role and content"
        )
    return [_message(message, f"messages[{index}]` of `{file}") for index, message in enumerate(messages)]


def _message(message: object, where: str) -> ChatMessage:
    if not isinstance(message, dict):
        raise PromptError(f"`{where}` is `{type(message).__name__}`, expected an object with role and content")
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        raise PromptError(
            f"`{where}` has the role `{role}`, expected one of {', '.join(f'`{each}`' for each in _ROLES)}"
        )
    if not isinstance(content, str):
        raise PromptError(f"`{where}` has a content of type `{type(content).__name__}`, expected text")
    reasoning = message.get("reasoning_content")
    if reasoning is not None and (role != "assistant" or not isinstance(reasoning, str)):
        raise PromptError(f"`{where}` has a `reasoning_content`, expected text, and of an assistant only")
    if message.get("tool_calls"):
        raise PromptError(f"`{where}` calls tools, expected a conversation without: `shoal chat` offers none")
    return {"role": role, "content": content} | ({"reasoning_content": reasoning} if reasoning else {})
