"""Small stories from templates, and lines of code."""

from random import Random

from training.corpus.arithmetic import draw_pair
from training.corpus.document import Document, Text
from training.corpus.words import ANIMALS, CITIES, COLOURS, DAYS, NAMES, PLACES, THINGS

# What a story is about is drawn at random: only its course is worth learning.
DRAWN = 0.2

_OPENINGS = (
    "{a} has a {colour} {thing}.",
    "On {day} {a} goes to the {place}.",
    "{a} lives in {city} with a {animal}.",
    "The {animal} of {a} is {colour}.",
    "The name of the {animal} is {b}.",
)
_COURSES = (
    "{a} meets {b} at the {place}. They play until it is dark.",
    "{b} asks for the {thing}. {a} gives the {thing} to {b}. Now {b} has the {thing}.",
    "The {thing} is in the {place}. {a} looks for the {thing} and finds it in the {place}.",
    "{a} puts the {thing} on the table. {b} takes the {thing} from the table.",
    "The {animal} runs to the {place}. {a} runs to the {place} too.",
)
_ENDINGS = (
    "{a} is happy.",
    "At night {a} is tired and sleeps.",
    "{a} says thank you to {b}.",
    "That was a good {day}.",
    "{a} and {b} go home.",
)
_CODE = (
    "def {name}({x}):\n    return {x} + {n}",
    "for {x} in range({n}):\n    print({x})",
    "{x} = {n}\nif {x} > {m}:\n    print({x})",
    '{name} = ["{w}", "{v}"]\nfor {x} in {name}:\n    print({x})',
    "def {name}({x}):\n    if {x} == {n}:\n        return True\n    return False",
)


def story(random: Random, kind: str) -> Document:
    """An opening, one or two turns and an ending about the same people, or a few lines of code."""
    if random.random() < 0.25:
        return Document(kind, tuple(_code(random)))
    texts = story_sentences(random)
    if random.random() < 0.3:
        texts += _counting(random)
    return Document(kind, tuple(texts))


def story_sentences(random: Random) -> list[Text]:
    """A story of four or five sentences in one run."""
    cast = _cast(random)
    frames = [random.choice(_OPENINGS), *random.sample(_COURSES, random.choice((1, 2))), random.choice(_ENDINGS)]
    return filled(" ".join(frames), cast)


def filled(frame: str, values: dict[str, str]) -> list[Text]:
    """`frame` with its fields filled in; a value is new, and hardly learned, where it stands first."""
    texts: list[Text] = []
    known: set[str] = set()
    for index, piece in enumerate(frame.replace("}", "{").split("{")):
        if index % 2 == 0:
            texts.append(Text(piece))
        else:
            texts.append(Text(values[piece], 1.0 if piece in known else DRAWN))
            known.add(piece)
    return [text for text in texts if text.text]


def _cast(random: Random) -> dict[str, str]:
    first, second = random.sample(NAMES, 2)
    return {
        "a": first,
        "b": second,
        "colour": random.choice(COLOURS),
        "thing": random.choice(THINGS),
        "animal": random.choice(ANIMALS),
        "place": random.choice(PLACES),
        "city": random.choice(CITIES),
        "day": random.choice(DAYS),
    }


def _counting(random: Random) -> list[Text]:
    left, right = draw_pair(random)
    values = {"a": random.choice(NAMES), "left": str(left), "right": str(right), "thing": random.choice(THINGS)}
    count = f" Count: {left}+{right}={left + right}."
    return [Text(" "), *filled("{a} has {left} coins and gets {right} more.", values), Text(count)]


def _code(random: Random) -> list[Text]:
    first, second = random.sample(THINGS, 2)
    values = {"name": random.choice(THINGS), "x": random.choice("abixny"), "w": first, "v": second}
    values |= {"n": str(random.randint(1, 20)), "m": str(random.randint(1, 20))}
    frames = random.sample(_CODE, random.choice((1, 2)))
    return [piece for frame in frames for piece in (*filled(frame, values), Text("\n"))]
