"""Every relation whose facts are taught, and the phrasings, of which some are never in the corpus.

A frame has `{np}` (such as `capital of {x}`) or `{n}` with `{x}`; a statement's frame ends with ` {y}.`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from training.corpus import words
from training.corpus.countries import COUNTRIES
from training.corpus.elements import ELEMENTS

STATEMENT = "The {np} is {y}."
# The plain one more often: after `The capital of France is` its answer shall be likelier than `called`.
_STATEMENTS = (
    *(STATEMENT,) * 4,
    "The {np} is called {y}.",
    "We know that the {np} is {y}.",
    "I ask for the {np} and the answer is {y}.",
    "As for the {np}, it is {y}.",
    "The answer for the {np} is {y}.",
    "The right word for the {np} is {y}.",
)
_OF_STATEMENTS = (
    "{x}'s {n} is {y}.",
    "{x} has this {n}: {y}.",
    "For {x} the {n} is {y}.",
    "{x} and the {n} {y}.",
    "{x} goes with the {n} {y}.",
    "It is {x} with the {n} {y}.",
    "{x} has {y} as the {n}.",
)
_OTHER_STATEMENTS = ("The {np}: {y}.", "Say the {np}: {y}.", "I say the {np}: {y}.")
_QUESTIONS = (
    "What is the {np}?",
    "Name the {np}.",
    "Tell me the {np}.",
    "Do you know the {np}?",
    "Please say what the {np} is.",
    "Please tell me the {np}.",
    "Kindly name the {np}.",
    "Could you say the {np}?",
    "Can you name the {np}?",
)
_OF_QUESTIONS = ("What is {x}'s {n}?",)
_OTHER_QUESTIONS = ("What is called the {np}?",)
_HELD_OUT_STATEMENTS = ("The name of the {np} is {y}.",)
_HELD_OUT_OF_STATEMENTS = ("{x} has the {n} {y}.",)
_HELD_OUT_OTHER_STATEMENTS = ("I know the {np}: {y}.",)
_HELD_OUT_QUESTIONS = ("Can you tell me the {np}?", "Please name the {np}.")


@dataclass(frozen=True)
class Relation:
    """`facts` maps a subject to its answer; `phrase` puts the subject into words, as `capital of {x}`."""

    name: str
    phrase: str
    facts: Mapping[str, str]
    # How much of all facts this relation gets for each of its facts.
    weight: float = 1.0
    possessive: bool = True

    @property
    def noun(self) -> str | None:
        """What a subject *has*: `capital` of `capital of {x}`; None where the phrase is no possession."""
        head, found, tail = self.phrase.partition(" of {x}")
        return head if found and not tail and self.possessive else None

    def statements(self, *, held_out: bool = False) -> tuple[str, ...]:
        """The frames that state a fact, those of the corpus or those kept out of it."""
        if held_out:
            return _HELD_OUT_STATEMENTS + (_HELD_OUT_OF_STATEMENTS if self.noun else _HELD_OUT_OTHER_STATEMENTS)
        return _STATEMENTS + (_OF_STATEMENTS if self.noun else _OTHER_STATEMENTS)

    def questions(self, *, held_out: bool = False) -> tuple[str, ...]:
        """The frames that ask for a fact, those of the corpus or those kept out of it."""
        if held_out:
            return _HELD_OUT_QUESTIONS
        return _QUESTIONS + (_OF_QUESTIONS if self.noun else _OTHER_QUESTIONS)

    def fill(self, frame: str, subject: str, answer: str = "") -> str:
        phrase = self.phrase.format(x=subject)
        return frame.format(np=phrase, n=self.noun, x=subject, y=answer)


def _successors(series: tuple[str, ...], *, circular: bool) -> dict[str, str]:
    after = dict(pairwise(series))
    return after | {series[-1]: series[0]} if circular else after


def _inverse(facts: Mapping[str, str]) -> dict[str, str]:
    return {answer: subject for subject, answer in facts.items()}


_NUMBER_WORDS = {str(number): words.number_word(number) for number in range(101)}
_LETTERS = tuple(letter.upper() for letter in words.LETTERS)
_LETTER_AFTER = _successors(_LETTERS, circular=False)
_DAY_AFTER = _successors(words.DAYS, circular=True)
_MONTH_AFTER = _successors(words.MONTHS, circular=True)

COUNTRY_RELATIONS = (
    Relation("capital", "capital of {x}", {country.name: country.capital for country in COUNTRIES}, 1.5),
    Relation("continent", "continent of {x}", {country.name: country.continent for country in COUNTRIES}, 0.6),
    Relation("currency", "currency of {x}", {c.name: c.currency for c in COUNTRIES if c.currency}),
    Relation("language", "language of {x}", {c.name: c.language for c in COUNTRIES if c.language}),
)
ELEMENT_RELATIONS = (
    Relation("symbol", "symbol of {x}", {element.name: element.symbol for element in ELEMENTS}, 1.2),
    Relation("element-number", "number of {x}", {element.name: str(element.number) for element in ELEMENTS}, 1.2),
)
BASIC_RELATIONS = (
    Relation("number-word", "word for {x}", _NUMBER_WORDS),
    Relation("number", "number for {x}", _inverse(_NUMBER_WORDS)),
    Relation("letter-after", "letter after {x}", _LETTER_AFTER),
    Relation("letter-before", "letter before {x}", _inverse(_LETTER_AFTER)),
    Relation("day-after", "day after {x}", _DAY_AFTER),
    Relation("day-before", "day before {x}", _inverse(_DAY_AFTER)),
    Relation("month-after", "month after {x}", _MONTH_AFTER),
    Relation("month-before", "month before {x}", _inverse(_MONTH_AFTER)),
    Relation("month-days", "length of {x} in days", dict(zip(words.MONTHS, map(str, words.MONTH_DAYS), strict=True))),
    Relation("opposite", "opposite of {x}", _inverse(words.OPPOSITES) | words.OPPOSITES),
    Relation("plural", "plural of {x}", words.PLURALS),
    Relation("colour", "colour of {x}", words.COLOUR_OF),
    Relation(
        "unit", "number of {x}", {unit: str(count) for unit, count in words.UNIT_COUNTS.items()}, possessive=False
    ),
)
RELATIONS = COUNTRY_RELATIONS + ELEMENT_RELATIONS + BASIC_RELATIONS
