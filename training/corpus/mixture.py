"""All kinds of documents in their shares of the corpus's tokens, one endless stream for a seed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from training.corpus.arithmetic import arithmetic
from training.corpus.copying import copying, retrieval
from training.corpus.document import Document
from training.corpus.facts import BASICS, WORLD, fact_chat, raw_facts
from training.corpus.schemas import schema_chat
from training.corpus.stories import story
from training.corpus.tools import tool_chat


@dataclass(frozen=True)
class Kind:
    """`share` of all tokens, `mean_tokens` of one document as measured, and what writes a document.

    Three tool chats in ten are too long and are left out, so their mean counts less here.
    """

    name: str
    share: float
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
    Kind("facts", 0.22, 34, _facts),
    Kind("facts-chat", 0.16, 66, _fact_chat),
    Kind("arithmetic", 0.16, 67, arithmetic),
    Kind("basics", 0.08, 44, _basics),
    Kind("stories", 0.06, 43, story),
    Kind("copying", 0.06, 40, copying),
    Kind("long-copy", 0.06, 400, retrieval),
    Kind("tools", 0.14, 300, tool_chat),
    Kind("json", 0.06, 144, schema_chat),
)


def documents(seed: int) -> Iterator[Document]:
    """The corpus of `seed`, without end; the same seed gives the same documents."""
    random = Random(seed)
    weights = [kind.share / kind.mean_tokens for kind in KINDS]
    while True:
        kind = random.choices(KINDS, weights)[0]
        yield kind.write(random, kind.name)
