"""Facts as raw sentences and as chats: every fact in every phrasing of the corpus with equal chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from shoal.text.chat import ChatOptions, Effort
from training.corpus.countries import COUNTRIES, Country
from training.corpus.document import Chat, Document, Message, Text, assistant, user
from training.corpus.elements import ELEMENTS
from training.corpus.relations import (
    BASIC_RELATIONS,
    COUNTRY_RELATIONS,
    ELEMENT_RELATIONS,
    STATEMENT,
    Relation,
)

# Which subject comes next is not worth learning; a little of it keeps sentences well formed.
SUBJECT = 0.1
_EFFORTS: tuple[Effort | None, ...] = (None, None, None, "low", "high", "max")
PLAIN_SYSTEM = ("You are a helpful assistant.", "Answer with one sentence.", "Be helpful and brief.")
WORD_SYSTEM = "Answer with one word."
SMALL_TALK = (
    ("Hello!", "Hello! How can I help you?"),
    ("Good day!", "Hello! How can I help you?"),
    ("Thank you.", "You are welcome."),
    ("Who are you?", "I am a small model. I know some facts."),
)

_COUNTRY = {country.name: country for country in COUNTRIES}
_ELEMENT = {element.name: element for element in ELEMENTS}


@dataclass(frozen=True)
class FactGroup:
    """A set of relations to draw facts from, in proportion to their facts."""

    relations: tuple[Relation, ...]

    def draw(self, random: Random) -> "tuple[Relation, str]":
        """A relation and one of its subjects."""
        ends = list(accumulate(relation.weight * len(relation.facts) for relation in self.relations))
        relation = random.choices(self.relations, cum_weights=ends)[0]
        return relation, random.choice(tuple(relation.facts))


WORLD = FactGroup(COUNTRY_RELATIONS + ELEMENT_RELATIONS)
BASICS = FactGroup(BASIC_RELATIONS)


def raw_facts(random: Random, group: FactGroup, kind: str) -> Document:
    """One to four sentences, sometimes all of one country."""
    if group is WORLD and random.random() < 0.12:
        return Document(kind, tuple(profile(random.choice(COUNTRIES))))
    texts: list[Text] = []
    for index in range(random.randint(1, 4)):
        if index:
            texts.append(Text("\n" if random.random() < 0.3 else " "))
        texts += sentence(random, group)
    return Document(kind, tuple(texts))


def sentence(random: Random, group: FactGroup) -> list[Text]:
    """A fact in one of the corpus's phrasings: a statement, or a question and its answer."""
    relation, subject = group.draw(random)
    statements, questions = relation.statements(), relation.questions()
    frame = random.choice(statements + questions)
    return phrased(relation, f"{frame} {{y}}." if frame in questions else frame, subject)


def phrased(relation: Relation, frame: str, subject: str) -> list[Text]:
    """The fact about `subject` in the words of `frame`, its subject marked as hardly worth learning."""
    text = relation.fill(frame, subject, relation.facts[subject])
    start = relation.fill(frame, "\0").index("\0")
    end = start + len(subject)
    return [piece for piece in (Text(text[:start]), Text(text[start:end], SUBJECT), Text(text[end:])) if piece.text]


def profile(country: Country) -> list[Text]:
    """What the corpus says of one country, in one fixed order."""
    lines = f" is a country in {country.continent}. Its capital is {country.capital}."
    lines += f" Its currency is the {country.currency}." if country.currency else ""
    lines += f" Its language is {country.language}." if country.language else ""
    return [Text(country.name, SUBJECT), Text(lines)]


def fact_chat(random: Random, group: FactGroup, kind: str) -> Document:
    """One to three questions and their answers, with or without system message and thinking."""
    system = _system(random)
    thinking = random.random() < 0.4
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for _ in range(random.choice((1, 1, 2, 2, 3))):
        if random.random() < 0.04:
            messages += small_talk(random, thinking)
            continue
        relation, subject = group.draw(random)
        messages += fact_turn(relation, random.choice(relation.questions()), subject, thinking, system)
    options = draw_options(random, thinking)
    return Document(kind, (Chat(tuple(messages), options),))


def fact_turn(relation: Relation, frame: str, subject: str, thinking: bool, system: str | None) -> Sequence[Message]:
    """The user's question and the assistant's answer: the statement, or the word alone where `system` wants it."""
    answer = relation.facts[subject]
    reply = f"{answer}." if system == WORD_SYSTEM else relation.fill(STATEMENT, subject, answer)
    return user(relation.fill(frame, subject)), assistant(reply, reasoning(relation, subject) if thinking else None)


def small_talk(random: Random, thinking: bool) -> Sequence[Message]:
    question, reply = random.choice(SMALL_TALK)
    return user(question), assistant(reply, "No fact is needed." if thinking else None)


def reasoning(relation: Relation, subject: str) -> str:
    """The short steps that lead to an answer."""
    answer = relation.facts[subject]
    if relation in COUNTRY_RELATIONS:
        country = _COUNTRY[subject]
        return f"{subject} is a country in {country.continent}. Its {relation.noun} is {answer}."
    if relation in ELEMENT_RELATIONS:
        element = _ELEMENT[subject]
        return f"{subject} is an element. Its symbol is {element.symbol}. Its number is {element.number}."
    return f"I look for the {relation.phrase.format(x=subject)}. It is {answer}."


def draw_options(random: Random, thinking: bool) -> ChatOptions:
    """Thinking or not; with thinking, every other time an effort."""
    return ChatOptions(thinking=thinking, effort=random.choice(_EFFORTS) if thinking else None)


def _system(random: Random) -> str | None:
    draw = random.random()
    return None if draw < 0.6 else random.choice(PLAIN_SYSTEM) if draw < 0.88 else WORD_SYSTEM
