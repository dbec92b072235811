"""Two-digit sums: those the corpus holds out in every form, and some of those it teaches."""

from collections.abc import Iterator
from random import Random

from shoal.text.chat import ChatOptions
from training.corpus.arithmetic import HELD_OUT_PAIRS, is_held_out, sum_question
from training.corpus.document import Chat, assistant, user
from training.items.item import Item, chat_item, prompt_item

HELD_OUT, SEEN = 200, 100


def arithmetic_items(random: Random) -> Iterator[Item]:
    """Each sum in one of the corpus's forms: half raw equations, then raw questions, chats, chats with thinking."""
    pairs = [random.sample(pair, 2) for pair in random.sample(sorted(HELD_OUT_PAIRS), HELD_OUT)]
    yield from (_item(random, "held-out", *pair) for pair in pairs)
    taught = [(left, right) for left in range(10, 100) for right in range(10, 100) if not is_held_out(left, right)]
    yield from (_item(random, "seen", *pair) for pair in random.sample(taught, SEEN))


def _item(random: Random, group: str, left: int, right: int) -> Item:
    answer = f"{left}+{right}={left + right}"
    draw = random.random()
    if draw < 0.5:
        return prompt_item(group, f"{left}+{right}=", str(left + right), 8)
    if draw < 0.65:
        return prompt_item(group, f"What is {left} plus {right}?", answer)
    thinking = draw > 0.85
    chat = Chat((user(sum_question(random, left, right)), assistant(answer)), ChatOptions(thinking=thinking))
    return chat_item(group, chat, {"answer": answer}, 64 if thinking else 24)
