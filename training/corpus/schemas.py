"""Chats whose answer is JSON of a given schema, with the values stated by the user.

Hardest rule: some answers are held out by a checksum of their text.
"""

import json
from binascii import crc32
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from shoal.text.chat import ChatOptions
from training.corpus.document import Chat, Document, Message, assistant, user
from training.corpus.words import CITIES, COLOURS, DAYS, NAMES, THINGS, WORDS

_HELD_OUT_ONE_IN = 8
_STRINGS = {"name": NAMES, "city": CITIES, "word": WORDS, "item": THINGS, "friend": NAMES}
_ENUMS = {"colour": COLOURS[:4], "day": DAYS, "size": ("small", "big")}
_INTEGERS = {"age": 99, "price": 99, "count": 20}
_BOOLEANS = ("open", "new", "happy")
_ARRAYS = {"items": THINGS, "names": NAMES}
_PROPERTIES = (*_STRINGS, *_STRINGS, *_ENUMS, *_INTEGERS, *_INTEGERS, *_BOOLEANS, *_ARRAYS)


@dataclass(frozen=True)
class Record:
    """A JSON object of some schema, and the words that state it."""

    values: Mapping[str, Any]
    request: str

    @property
    def reply(self) -> str:
        return json.dumps(self.values, ensure_ascii=False)

    def is_held_out(self) -> bool:
        # An object of one property may have just two values: those are all taught.
        return len(self.values) > 1 and crc32(self.reply.encode()) % _HELD_OUT_ONE_IN == 0


def draw_names(random: Random) -> list[str]:
    """The properties of a schema: one to four, in any order."""
    names = list(dict.fromkeys(random.choices(_PROPERTIES, k=random.choice((1, 2, 2, 3, 3, 4)))))
    random.shuffle(names)
    return names


def schema_of(names: list[str]) -> dict[str, Any]:
    """The JSON Schema of an object with just these properties, all required."""
    return {"type": "object", "properties": {name: _type(name) for name in names}, "required": names}


def _type(name: str) -> dict[str, Any]:
    if name in _ENUMS:
        return {"enum": list(_ENUMS[name])}
    if name in _ARRAYS:
        return {"type": "array", "items": {"type": "string"}}
    return {"type": "integer" if name in _INTEGERS else "boolean" if name in _BOOLEANS else "string"}


def draw_record(random: Random, names: list[str]) -> Record:
    """Values for `names`, held out or not, and a request that states them."""
    values = {name: _draw(random, name) for name in names}
    stated = random.sample(names, len(names))
    return Record(values, " ".join(_stated(name, values[name]) for name in stated))


def _draw_taught(random: Random, names: list[str]) -> Record:
    while True:
        record = draw_record(random, names)
        if not record.is_held_out():
            return record


def _draw(random: Random, name: str) -> Any:
    if name in _INTEGERS:
        return random.randint(1, _INTEGERS[name])
    if name in _BOOLEANS:
        return random.random() < 0.5
    if name in _ARRAYS:
        return random.sample(_ARRAYS[name], random.randint(1, 3))
    return random.choice((_STRINGS | _ENUMS)[name])


def _stated(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"It is {name}." if value else f"It is not {name}."
    if isinstance(value, list):
        return f"The {name} are {', '.join(value)}."
    return f"The {name} is {value}."


def schema_chat(random: Random, kind: str) -> Document:
    """One to three requests under one schema, with or without a short thought."""
    names = draw_names(random)
    thinking = random.random() < 0.25
    messages: list[Message] = []
    for _ in range(random.choice((1, 2, 3))):
        record = _draw_taught(random, names)
        messages += [user(record.request), assistant(record.reply, thought(names) if thinking else None)]
    options = ChatOptions(thinking=thinking, response_schema=schema_of(names))
    return Document(kind, (Chat(tuple(messages), options),))


def thought(names: list[str]) -> str:
    return f"I write {', '.join(names)}."
