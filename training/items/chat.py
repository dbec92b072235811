"""Conversations: the reply must be right and end with the end token."""

from collections.abc import Iterator
from random import Random

from training.corpus.arithmetic import arithmetic
from training.corpus.document import Chat, Document
from training.corpus.facts import BASICS, WORLD, fact_chat
from training.items.item import Item, chat_item

COUNTS = {"plain": 50, "system": 30, "turns": 30, "thinking": 40}


def chat_items(random: Random) -> Iterator[Item]:
    """New conversations as the corpus has them, sorted into the first group that fits and has room."""
    left = dict(COUNTS)
    while any(left.values()):
        chat = _draw(random).parts[0]
        assert isinstance(chat, Chat)
        group = _group(chat)
        if left[group]:
            left[group] -= 1
            expect = {"answer": str(chat.messages[-1]["content"]).removesuffix("."), "ends": True}
            yield chat_item(group, chat, expect, 96 if chat.options.thinking else 48)


def _group(chat: Chat) -> str:
    if chat.options.thinking:
        return "thinking"
    if chat.messages[0]["role"] == "system":
        return "system"
    return "turns" if len(chat.messages) > 2 else "plain"


def _draw(random: Random) -> Document:
    while True:
        draw = random.random()
        if draw < 0.8:
            return fact_chat(random, WORLD if draw < 0.55 else BASICS, "chat")
        document = arithmetic(random, "chat")
        if isinstance(document.parts[0], Chat):
            return document
