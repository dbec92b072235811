"""Chats that offer one to three tools: calls, results, answers that use them, and turns that need no tool.

Hardest rule: some values of some tools are held out; the corpus never passes them to that tool.
"""

import json
from binascii import crc32
from dataclasses import dataclass
from random import Random
from typing import Any

from shoal.text.chat import ChatOptions
from training.corpus.document import Chat, Document, Message, assistant, user
from training.corpus.facts import WORLD, fact_turn, small_talk
from training.corpus.tool_table import NUMBERS, TOOLS, VALUES, Tool

_HELD_OUT_ONE_IN = 8


@dataclass(frozen=True)
class Call:
    """A tool with the arguments that a request names, in words and as values."""

    tool: Tool
    request: str
    words: dict[str, str]

    @property
    def arguments(self) -> dict[str, Any]:
        return {name: _value(name, self.words[name]) for name in self.tool.parameters}

    def is_held_out(self) -> bool:
        """Whether any argument is one that the corpus never passes to this tool."""
        return any(held_out_value(self.tool, name, self.words[name]) for name in self.tool.parameters)


def held_out_value(tool: Tool, name: str, value: str) -> bool:
    # A checksum, so that no list has to be kept; booleans have too few values to hold one out.
    return name != "on" and crc32(f"{tool.name} {name} {value}".encode()) % _HELD_OUT_ONE_IN == 0


def draw_call(random: Random, tool: Tool, *, held_out: bool = False) -> Call:
    """A call of `tool`, of the corpus or with at least one value held out of it."""
    while True:
        words = {name: draw_value(random, name) for name in tool.parameters}
        if words.get("city", "") == words.get("to", "-"):
            continue
        call = Call(tool, random.choice(tool.requests).format(**words), words)
        if call.is_held_out() == held_out:
            return call


def draw_value(random: Random, name: str) -> str:
    if name == "on":
        return random.choice(("on", "off"))
    return str(random.randint(1, NUMBERS[name])) if name in NUMBERS else random.choice(VALUES[name])


def _value(name: str, word: str) -> str | int | bool:
    return word == "on" if name == "on" else int(word) if name in NUMBERS else word


def tool_chat(random: Random, kind: str) -> Document:
    """One to three tools offered, one to four turns, with or without thinking."""
    tools = random.sample(TOOLS, random.choice((1, 2, 2, 3)))
    thinking = random.random() < 0.25
    bare = not thinking and random.random() < 0.65
    messages: list[Message] = []
    # Schemas are long: the more of them, the fewer turns have room.
    for _ in range(5 - (len(tools) + 1) // 2 if bare else 4 - len(tools)):
        messages += _turn(random, tools, thinking, len(messages))
    options = ChatOptions(thinking=thinking, tools=[tool.schema() for tool in tools])
    return Document(kind, (Chat(tuple(messages), options, bare),))


def _turn(random: Random, tools: list[Tool], thinking: bool, serial: int) -> list[Message]:
    draw = random.random()
    if draw < 0.06:
        return list(small_talk(random, thinking))
    if draw < 0.15:
        relation, subject = WORLD.draw(random)
        return list(fact_turn(relation, random.choice(relation.questions()), subject, thinking, None))
    calls = [draw_call(random, random.choice(tools)) for _ in range(2 if draw > 0.65 else 1)]
    return call_turn(random, calls, thinking, serial)


def call_turn(random: Random, calls: list[Call], thinking: bool, serial: int) -> list[Message]:
    """The user's request, the assistant's calls, their results and the answer."""
    ids = [f"call_{serial + index}" for index in range(len(calls))]
    request: Message = user(" ".join(call.request for call in calls))
    called = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": call.tool.name, "arguments": json.dumps(call.arguments)},
        }
        for call_id, call in zip(ids, calls, strict=True)
    ]
    steps = f"I call {' and '.join(call.tool.name for call in calls)}." if thinking else None
    results: list[Message] = []
    answers = []
    for call_id, call in zip(ids, calls, strict=True):
        words = {name: draw_value(random, name) for name in (*VALUES, *NUMBERS)} | call.words
        results.append({"role": "tool", "tool_call_id": call_id, "content": call.tool.result.format(**words)})
        answers.append(call.tool.answer.format(**words))
    asked: Message = {**assistant("", steps), "tool_calls": called}
    return [request, asked, *results, assistant(" ".join(answers), "I have the result." if thinking else None)]
