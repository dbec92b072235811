"""One evaluation item: a prompt, a conversation or a text, and what a right reply to it holds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from training.corpus.document import Chat, Message

Item = dict[str, Any]


def prompt_item(group: str, prompt: str, answer: str, max_new_tokens: int = 16) -> Item:
    """A raw completion that begins with `answer`."""
    return {"group": group, "prompt": prompt, "max_new_tokens": max_new_tokens, "expect": {"answer": answer}}


def chat_item(group: str, chat: Chat, expect: Mapping[str, Any], max_new_tokens: int = 64) -> Item:
    """A conversation up to its last message, which is the reply that `expect` describes."""
    return conversation_item(group, chat.messages[:-1], chat, expect, max_new_tokens)


def conversation_item(
    group: str, messages: Sequence[Message], chat: Chat, expect: Mapping[str, Any], max_new_tokens: int
) -> Item:
    """`messages` under the options of `chat`."""
    item: Item = {"group": group, "messages": list(messages)}
    options = chat.options
    if options.tools:
        item["tools"] = list(options.tools)
    if options.thinking:
        item["thinking"] = True
    if options.effort is not None:
        item["effort"] = options.effort
    if options.response_schema is not None:
        item["response_schema"] = options.response_schema
    return item | {"max_new_tokens": max_new_tokens, "expect": dict(expect)}


def write_items(path: Path, items: Iterable[Item]) -> int:
    """One JSON object a line; returns how many."""
    lines = [json.dumps(item, ensure_ascii=False) for item in items]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(lines)
