"""JSON answers of objects that the corpus holds out: valid under the schema, and for some the exact object."""

from collections.abc import Iterator
from random import Random
from typing import Any

from shoal.text.chat import ChatOptions
from training.corpus.document import Chat, assistant, user
from training.corpus.schemas import Record, draw_names, draw_record, schema_of
from training.items.item import Item, chat_item

VALID, EXACT = 100, 50


def schema_items(random: Random) -> Iterator[Item]:
    yield from (_item(random, "valid", exact=False) for _ in range(VALID))
    yield from (_item(random, "exact", exact=True) for _ in range(EXACT))


def _item(random: Random, group: str, *, exact: bool) -> Item:
    names, record = _draw(random)
    schema = schema_of(names)
    options = ChatOptions(thinking=random.random() < 0.2, response_schema=schema)
    expect: dict[str, Any] = {"schema": schema, "ends": True}
    if exact:
        expect["equals"] = record.reply
    return chat_item(group, Chat((user(record.request), assistant(record.reply)), options), expect, 128)


def _draw(random: Random) -> tuple[list[str], Record]:
    # An object of one property is never held out, and is asked for all the same.
    while True:
        names = draw_names(random)
        record = draw_record(random, names)
        if record.is_held_out() or (len(names) == 1 and random.random() < 0.15):
            return names, record
