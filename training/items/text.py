"""Texts for perplexity: raw documents of a seed that no training uses."""

from collections.abc import Iterator

from shoal.text.tokenizer import Tokenizer
from training.corpus.document import Text
from training.corpus.mixture import documents
from training.items.item import Item

COUNTS = {"facts": 20, "basics": 8, "arithmetic": 8, "stories": 8, "copying": 4, "long-copy": 12}
SHORTEST, LONGEST = 20, 600


def text_items(seed: int, tokenizer: Tokenizer) -> Iterator[Item]:
    """The first documents of each kind that are raw text of 20 to 600 tokens."""
    left = dict(COUNTS)
    for document in documents(seed):
        if not any(left.values()):
            return
        text = document.text().rstrip("\n")
        if not left.get(document.kind) or not isinstance(document.parts[0], Text):
            continue
        if SHORTEST <= len(tokenizer.encode(text)) <= LONGEST:
            left[document.kind] -= 1
            yield {"group": document.kind, "text": text}
