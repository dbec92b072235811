"""All kinds of documents in a stage's shares of the tokens, one endless stream for a seed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from training.corpus.arithmetic import arithmetic
from training.corpus.copying import copying, repeat, repeat_afar, retrieval
from training.corpus.document import Document
from training.corpus.facts import BASICS, WORLD, fact_chat, raw_facts
from training.corpus.schemas import schema_chat
from training.corpus.stories import story
from training.corpus.tools import tool_chat
from training.stages import FACTS, Stage


@dataclass(frozen=True)
class Kind:
    """`mean_tokens` of one document as measured, and what writes a document.

    Three tool chats in ten are too long and are left out, so their mean counts less here.
    """

    name: str
    mean_tokens: float
    write: Callable[[Random, str], Document]


def _facts(random: Random, kind: str) -> Document:
    return raw_facts(random, WORLD, kind)


def _basics(random: Random, kind: str) -> Document:
    write = fact_chat if random.random() < 0.4 else raw_facts
    return write(random, BASICS, kind)


def _fact_chat(random: Random, kind: str) -> Document:
    return fact_chat(random, WORLD, kind)


KINDS = (
    Kind("facts", 34, _facts),
    Kind("facts-chat", 66, _fact_chat),
    Kind("arithmetic", 67, arithmetic),
    Kind("basics", 44, _basics),
    Kind("stories", 43, story),
    Kind("copying", 40, copying),
    Kind("long-copy", 400, retrieval),
    Kind("tools", 300, tool_chat),
    Kind("json", 144, schema_chat),
    Kind("repeat", 40, repeat),
    Kind("repeat-afar", 190, repeat_afar),
)


def documents(seed: int, stage: Stage = FACTS) -> Iterator[Document]:
    """The corpus of `seed` and `stage`, without end; the same seed gives the same documents."""
    random = Random(seed)
    weights = [stage.shares.get(kind.name, 0.0) / kind.mean_tokens for kind in KINDS]
    while True:
        kind = random.choices(KINDS, weights)[0]
        yield kind.write(random, kind.name)
