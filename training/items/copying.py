"""Looking up what was said about 50, 150 or 300 tokens ago, behind a front of other text.

Hardest rule: the needle is never among the oldest tokens, so that keeping only those loses it.
"""

from collections.abc import Iterator
from random import Random

from shoal.text.tokenizer import Tokenizer
from training.corpus.copying import draw_needles, filler, told
from training.corpus.document import Text
from training.items.item import Item, prompt_item

COUNT = 60
# Distance in tokens, and the tokens of text in front of the needles.
DISTANCES = {50: 60, 150: 110, 300: 130}
TOLERANCE = 8


def copying_items(random: Random, tokenizer: Tokenizer) -> Iterator[Item]:
    for distance, front in DISTANCES.items():
        yield from (_item(random, tokenizer, distance, front) for _ in range(COUNT))


def _item(random: Random, tokenizer: Tokenizer, distance: int, front: int) -> Item:
    """Drawn again until the needle's value begins `distance` tokens before the end of the prompt."""
    while True:
        needles = draw_needles(random, 3)
        name, noun, value = random.choice(needles)
        line = _joined(told(name, noun, value))
        lines = " ".join(_joined(told(*needle)) for needle in needles)
        behind = f"{lines.partition(line)[2]} "
        question = f"The {noun} of {name} is"
        found = 0
        while found < distance - TOLERANCE:
            behind += _joined(filler(random, 1))
            found = len(tokenizer.encode(f" {value}.{behind}{question}"))
        if found <= distance + TOLERANCE:
            before = f"{_joined(filler(random, front))}{lines.partition(line)[0]}"
            return prompt_item(f"copy-{distance}", f"{before}{line}{behind}{question}", value)


def _joined(texts: list[Text]) -> str:
    return "".join(text.text for text in texts)
