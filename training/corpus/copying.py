"""Copying, reversing and repeating of letters and words, and looking up what was said earlier.

The first time a random string is read it cannot be predicted, so it weighs nothing there.
"""

from random import Random

from training.corpus.document import Chat, Document, Text, assistant, user
from training.corpus.facts import BASICS, WORLD, sentence
from training.corpus.stories import story_sentences
from training.corpus.words import CITIES, COLOURS, DAYS, LETTERS, MONTHS, NAMES, WORDS

# Lengths are counted in characters here; about 3.4 of them are a token of filler.
_CHARACTERS_A_TOKEN = 3.4
_THINGS_TO_LIST = tuple(dict.fromkeys((*WORDS, *NAMES, *CITIES, *COLOURS, *DAYS, *MONTHS)))
_COUNTS, _COUNTS_AFAR = (6, 8, 10, 12, 16, 20, 26), (30, 45, 60, 80, 110, 140)


def _copied(given: str) -> str:
    return given


def _reversed(given: str) -> str:
    return " ".join(reversed(given.split()))


def _doubled(given: str) -> str:
    return f"{given} {given}"


_TASKS = {"Copy": _copied, "Reverse": _reversed, "Twice": _doubled}


def draw_string(random: Random) -> str:
    """Three to five letters, or two to four words, each a token of its own."""
    if random.random() < 0.5:
        return " ".join(random.sample(LETTERS, random.randint(3, 5)))
    return " ".join(random.sample(WORDS, random.randint(2, 4)))


def copying(random: Random, kind: str) -> Document:
    """Strings copied, reversed or repeated: lines of one task, or a chat."""
    if random.random() < 0.3:
        task = random.choice(tuple(_TASKS))
        given = draw_string(random)
        reply = _TASKS[task](given)
        return Document(kind, (Chat((user(f"{task}: {given}"), assistant(reply))),))
    if random.random() < 0.4:
        return _lookup(random, kind)
    texts: list[Text] = []
    for _ in range(random.randint(2, 5)):
        task, given = random.choice(tuple(_TASKS)), draw_string(random)
        texts += [Text(f"{task}:"), Text(f" {given}", 0.0), Text(f" -> {_TASKS[task](given)}\n")]
    return Document(kind, tuple(texts))


def _lookup(random: Random, kind: str) -> Document:
    """A handful of lines in a row, each name's line asked for again in some order: distances of 10 to 60."""
    needles = draw_needles(random, random.randint(2, 5))
    texts = [piece for needle in needles for piece in (*told(*needle), Text(" "))]
    for needle in random.sample(needles, len(needles)):
        texts += [*asked(*needle), Text(" ")]
    return Document(kind, tuple(texts[:-1]))


def draw_needles(random: Random, count: int) -> list[tuple[str, str, str]]:
    """`count` different people with what is theirs: name, `code` or `word`, value."""
    return [(name, *_drawn_value(random)) for name in random.sample(NAMES, count)]


def _drawn_value(random: Random) -> tuple[str, str]:
    if random.random() < 0.5:
        return "word", random.choice(WORDS)
    return "code", " ".join(random.sample(LETTERS, random.choice((3, 3, 4))))


def told(name: str, noun: str, value: str) -> list[Text]:
    """The line that says it first."""
    return [Text(f"The {noun} of "), Text(name, 0.1), Text(" is"), Text(f" {value}", 0.0), Text(".")]


def asked(name: str, noun: str, value: str) -> list[Text]:
    """The same line again, whose value is now known."""
    return [Text(f"The {noun} of "), Text(name, 0.1), Text(f" is {value}.")]


def retrieval(random: Random, kind: str) -> Document:
    """Filler with needles told in its first part and asked for later, at distances of 20 to 400 tokens.

    Most are asked for once: a second time, the first answer is nearer than what was told.
    """
    needles = draw_needles(random, random.randint(4, 8))
    texts = filler(random, random.choice((0, 0, 40, 80, 140)))
    pause = random.randint(1, len(needles))
    for index, needle in enumerate(needles):
        if index == pause:
            texts += filler(random, random.choice((10, 40)))
        texts += [*told(*needle), Text(" ")]
    questions = random.sample(needles, len(needles)) + random.choices(needles, k=random.randint(0, 1))
    while questions:
        texts += filler(random, random.choice((10, 30, 60, 90)))
        for needle in (questions.pop() for _ in range(min(len(questions), random.randint(1, 3)))):
            texts += [*asked(*needle), Text(" ")]
    return Document(kind, tuple(texts[:-1]))


def repeat(random: Random, kind: str) -> Document:
    """A list and the same again, within the window or nearly."""
    return _again(random, kind, random.choice(_COUNTS))


def repeat_afar(random: Random, kind: str) -> Document:
    """A list and the same again, from far beyond the window."""
    return _again(random, kind, random.choice(_COUNTS_AFAR))


def _again(random: Random, kind: str, count: int) -> Document:
    """Words without a repetition, or letters with many: what came before must then be read more than a token back."""
    drawn = random.choices(LETTERS, k=count) if random.random() < 0.2 else random.sample(_THINGS_TO_LIST, count)
    given = f" {' '.join(drawn)}"
    return Document(kind, (Text("List:"), Text(given, 0.0), Text("\nAgain:"), Text(given)))


def filler(random: Random, tokens: int) -> list[Text]:
    """About `tokens` tokens of facts and story sentences, with a space after them."""
    texts: list[Text] = []
    while sum(len(text.text) for text in texts) < tokens * _CHARACTERS_A_TOKEN:
        draw = random.random()
        more = story_sentences(random) if draw < 0.25 else sentence(random, WORLD if draw < 0.7 else BASICS)
        texts += [*more, Text(" ")]
    return texts
