"""Sums, differences and comparisons of numbers below 100; some sums are never in the corpus, in any form or order."""

from random import Random

from training.corpus.document import Chat, Document, Message, Text, assistant, user
from training.corpus.facts import PLAIN_SYSTEM, draw_options

_HELD_OUT_SHARE = 0.15


def _held_out_pairs() -> frozenset[tuple[int, int]]:
    # Its own seed: the same pairs are kept out of every corpus, whatever that corpus's seed.
    random = Random(37)
    pairs = [(low, high) for low in range(10, 100) for high in range(low, 100)]
    return frozenset(random.sample(pairs, round(_HELD_OUT_SHARE * len(pairs))))


HELD_OUT_PAIRS = _held_out_pairs()


def is_held_out(left: int, right: int) -> bool:
    """Whether `left` + `right`, in either order, is kept out of the corpus."""
    return (min(left, right), max(left, right)) in HELD_OUT_PAIRS


def draw_pair(random: Random) -> tuple[int, int]:
    """Two numbers below 100 whose sum may be taught, most of them with two digits."""
    while True:
        low = 10 if random.random() < 0.85 else 0
        pair = random.randint(low, 99), random.randint(low if random.random() < 0.85 else 0, 99)
        if not is_held_out(*pair):
            return pair


def sum_steps(left: int, right: int) -> str:
    """Written addition: units, carry, tens."""
    units = left % 10 + right % 10
    tens = left // 10 + right // 10 + units // 10
    carry = f"{left // 10}+{right // 10}+1={tens}" if units >= 10 else f"{left // 10}+{right // 10}={tens}"
    return f"{left % 10}+{right % 10}={units}. {carry}. {left}+{right}={left + right}."


def arithmetic(random: Random, kind: str) -> Document:
    """Lines of sums, or a chat of one to three questions."""
    return _lines(random, kind) if random.random() < 0.6 else _chat(random, kind)


def _lines(random: Random, kind: str) -> Document:
    form = random.choice((_sum_line, _sum_line, _sum_line, _question_line, _steps_line, _mixed_line))
    texts = [piece for _ in range(random.randint(2, 7)) for piece in (*form(random), Text("\n"))]
    return Document(kind, tuple(texts[:-1]))


def _sum_line(random: Random) -> list[Text]:
    left, right = draw_pair(random)
    return [Text(f"{left}+{right}", 0.0), Text(f"={left + right}")]


def _question_line(random: Random) -> list[Text]:
    left, right = draw_pair(random)
    return [
        Text("What is "),
        Text(str(left), 0.0),
        Text(" plus "),
        Text(str(right), 0.0),
        Text(f"? {left}+{right}={left + right}."),
    ]


def _steps_line(random: Random) -> list[Text]:
    left, right = draw_pair(random)
    return [Text(f"{left}+{right}", 0.0), Text(f": {sum_steps(left, right)}")]


def _mixed_line(random: Random) -> list[Text]:
    left, right = draw_pair(random)
    if random.random() < 0.7:
        return [Text(f"{left + right}-{left}", 0.0), Text(f"={right}")]
    sign = "<" if left < right else ">" if left > right else "="
    return [Text(f"{left} ? {right}", 0.0), Text(f": {left}{sign}{right}")]


def sum_question(random: Random, left: int, right: int) -> str:
    return random.choice((f"What is {left} plus {right}?", f"{left}+{right}=?", f"Can you add {left} and {right}?"))


def _chat(random: Random, kind: str) -> Document:
    thinking = random.random() < 0.4
    messages: list[Message] = []
    if random.random() < 0.25:
        messages.append({"role": "system", "content": random.choice(PLAIN_SYSTEM)})
    for _ in range(random.choice((1, 2, 3))):
        messages += _turn(random, thinking)
    options = draw_options(random, thinking)
    return Document(kind, (Chat(tuple(messages), options),))


def _turn(random: Random, thinking: bool) -> tuple[Message, Message]:
    left, right = draw_pair(random)
    draw = random.random()
    if draw < 0.8:
        steps = sum_steps(left, right) if thinking else None
        return user(sum_question(random, left, right)), assistant(f"{left}+{right}={left + right}.", steps)
    if draw < 0.9:
        total = left + right
        steps = f"{left}+{right}={total}." if thinking else None
        return user(f"What is {total} minus {left}?"), assistant(f"{total}-{left}={right}.", steps)
    larger = max(left, right)
    steps = f"{larger} is larger." if thinking else None
    return user(f"Which is larger, {left} or {right}?"), assistant(f"{larger}.", steps)
