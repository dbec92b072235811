"""Facts, in the phrasings of the corpus and in those held out of it, raw and as questions of a chat."""

from collections.abc import Iterator
from random import Random

from training.corpus.document import Chat, user
from training.corpus.facts import fact_turn
from training.corpus.relations import COUNTRY_RELATIONS, RELATIONS, STATEMENT, Relation
from training.items.item import Item, chat_item, prompt_item

SEEN, HELD_OUT = 300, 200
_CHAT_SHARE = 0.3


def fact_items(random: Random) -> Iterator[Item]:
    """The sentence that everyone tries first, then every relation in proportion to its facts."""
    yield prompt_item("seen", "The capital of France is", "Paris")
    drawn = {("capital", "France", STATEMENT)}
    for group, count in (("seen", SEEN - 1), ("held-out", HELD_OUT)):
        for _ in range(count):
            yield _draw(random, group, drawn)


def _draw(random: Random, group: str, drawn: set[tuple[str, str, str]]) -> Item:
    held_out = group == "held-out"
    while True:
        relation = _relation(random)
        subject = random.choice(tuple(relation.facts))
        asked = relation.questions(held_out=held_out)
        chat = random.random() < _CHAT_SHARE
        stated = [frame for frame in relation.statements(held_out=held_out) if _says_what_is_asked(frame)]
        frame = random.choice(asked if chat else [*asked, *stated])
        if (relation.name, subject, frame) not in drawn:
            drawn.add((relation.name, subject, frame))
            return (_chat if chat else _raw)(group, relation, frame, subject)


def _says_what_is_asked(frame: str) -> bool:
    """Whether the relation is named before its answer: what `France has` is to go on with, nobody can know."""
    return frame.index("{y}") > max(frame.find("{n}"), frame.find("{np}"))


def _relation(random: Random) -> Relation:
    # The small relations count as thirty facts: without that they would hardly be asked for.
    weights = [max(30, len(relation.facts)) * (1.5 if relation in COUNTRY_RELATIONS else 1) for relation in RELATIONS]
    return random.choices(RELATIONS, weights)[0]


def _raw(group: str, relation: Relation, frame: str, subject: str) -> Item:
    prompt = relation.fill(frame, subject, "\0").partition("\0")[0].rstrip()
    return prompt_item(group, prompt, relation.facts[subject])


def _chat(group: str, relation: Relation, frame: str, subject: str) -> Item:
    question, reply = fact_turn(relation, frame, subject, thinking=False, system=None)
    assert question == user(relation.fill(frame, subject))
    chat = Chat((question, reply))
    return chat_item(group, chat, {"answer": str(reply["content"]).removesuffix(".")}, 32)
