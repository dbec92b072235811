"""The corpus: deterministic, endless, and silent about what it holds out."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from training.corpus import Chat, Document, documents
from training.corpus.arithmetic import HELD_OUT_PAIRS, is_held_out, sum_steps
from training.corpus.countries import COUNTRIES
from training.corpus.elements import ELEMENTS
from training.corpus.relations import RELATIONS, Relation
from training.corpus.schemas import Record
from training.corpus.tool_table import TOOLS
from training.corpus.tools import held_out_value
from training.corpus.words import number_word
from training.stages import FACTS, STAGES, Stage

COUNT = 12_000
RELATION = {relation.name: relation for relation in RELATIONS}


@pytest.fixture(scope="module")
def corpus() -> list[Document]:
    return list(islice(documents(3), COUNT))


def lines(corpus: list[Document]) -> Iterator[str]:
    for document in corpus:
        yield from document.text().splitlines()


def chats(corpus: list[Document], kind: str) -> Iterator[Chat]:
    for document in corpus:
        for part in document.parts:
            if document.kind == kind and isinstance(part, Chat):
                yield part


def test_the_same_seed_gives_the_same_documents(corpus: list[Document]) -> None:
    assert list(islice(documents(3), COUNT)) == corpus


def test_another_seed_gives_other_documents(corpus: list[Document]) -> None:
    texts = {document.text() for document in corpus}
    others = [document.text() for document in islice(documents(4), 500)]
    assert sum(text in texts for text in others) < 100


def test_every_kind_occurs_and_has_text(corpus: list[Document]) -> None:
    assert {document.kind for document in corpus} == set(FACTS.shares)
    assert all(document.text().strip() for document in corpus)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_has_its_kinds(stage: Stage) -> None:
    assert {document.kind for document in islice(documents(5, stage), COUNT)} == set(stage.shares)


def test_the_sentence_that_everyone_tries_is_taught() -> None:
    assert any("The capital of France is Paris." in document.text() for document in islice(documents(0), 20 * COUNT))


@pytest.mark.parametrize("name", RELATION)
def test_a_relation_has_twelve_phrasings_of_which_some_are_held_out(name: str) -> None:
    relation = RELATION[name]
    seen = {*relation.statements(), *relation.questions()}
    held_out = {*relation.statements(held_out=True), *relation.questions(held_out=True)}
    assert not seen & held_out
    assert len(seen | held_out) >= 12
    assert len(held_out) >= 3


def _frame_pattern(relation: Relation, frame: str) -> str:
    """`frame` about any subject."""
    return re.escape(relation.fill(frame, "\0", "\1")).replace("\0", ".+").replace("\1", ".*")


def test_no_document_uses_a_held_out_phrasing(corpus: list[Document]) -> None:
    patterns = {
        _frame_pattern(relation, frame)
        for relation in RELATIONS
        for frame in relation.statements(held_out=True) + relation.questions(held_out=True)
    }
    held_out = re.compile("|".join(sorted(patterns)))
    assert held_out.search("Germany has the capital Berlin.")
    assert held_out.search("Can you tell me the letter after B?")
    assert [line for line in lines(corpus[:2000]) if held_out.search(line)] == []


def test_every_seen_phrasing_is_used(corpus: list[Document]) -> None:
    text = "\n".join(document.text() for document in corpus)
    for name in ("capital", "symbol", "opposite", "letter-after"):
        relation = RELATION[name]
        for frame in relation.statements() + relation.questions():
            assert re.search(_frame_pattern(relation, frame), text), frame


def test_about_every_seventh_pair_is_held_out_in_both_orders() -> None:
    assert len(HELD_OUT_PAIRS) == pytest.approx(0.15 * 90 * 91 / 2, abs=1)
    low, high = min(HELD_OUT_PAIRS)
    assert is_held_out(low, high) and is_held_out(high, low)


def test_no_document_adds_a_held_out_pair_in_any_form(corpus: list[Document]) -> None:
    form = re.compile(r"\b(\d+)(?:\+| plus | and | has | or | \? )(\d+)\b")
    difference = re.compile(r"\b(\d+)(?:-| minus )(\d+)\b")
    pairs = [(int(a), int(b)) for line in lines(corpus) for a, b in form.findall(line)]
    pairs += [(int(a) - int(b), int(b)) for line in lines(corpus) for a, b in difference.findall(line)]
    assert len(pairs) > 5000
    assert [pair for pair in pairs if is_held_out(*pair)] == []


def test_sums_and_differences_are_right(corpus: list[Document]) -> None:
    found = [match for line in lines(corpus) for match in re.findall(r"\b([\d+]+)=(\d+)\b", line) if "+" in match[0]]
    assert len(found) > 3000
    assert all(sum(map(int, left.split("+"))) == int(right) for left, right in found)
    assert sum_steps(37, 48) == "7+8=15. 3+4+1=8. 37+48=85."
    assert sum_steps(90, 12) == "0+2=2. 9+1=10. 90+12=102."


def test_no_tool_is_passed_a_value_held_out_for_it(corpus: list[Document]) -> None:
    tools = {tool.name: tool for tool in TOOLS}
    calls = Counter[str]()
    for chat in chats(corpus, "tools"):
        for message in chat.messages:
            for call in message.get("tool_calls", ()):
                name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
                calls[name] += 1
                assert tuple(arguments) == tools[name].parameters
                assert not any(held_out_value(tools[name], key, str(value)) for key, value in arguments.items())
    assert len(calls) == len(TOOLS)


def test_no_json_reply_is_held_out(corpus: list[Document]) -> None:
    replies = [m["content"] for chat in chats(corpus, "json") for m in chat.messages if m["role"] == "assistant"]
    assert len(replies) > 100
    assert not any(Record(json.loads(reply), "").is_held_out() for reply in replies)


def test_the_tables_say_what_everyone_knows() -> None:
    known = {country.name: country for country in COUNTRIES}
    assert len(known) == len(COUNTRIES) >= 180
    assert known["France"] == ("France", "Paris", "Europe", "euro", "French")
    assert len({country.capital for country in COUNTRIES}) == len(COUNTRIES)
    assert [element.number for element in ELEMENTS] == list(range(1, 119))
    assert len({element.symbol for element in ELEMENTS}) == 118
    assert {element.symbol: element.name for element in ELEMENTS}["Au"] == "gold"
    assert (ELEMENTS[25].name, ELEMENTS[91].symbol) == ("iron", "U")
    assert [number_word(number) for number in (0, 13, 40, 99, 100)] == [
        "zero", "thirteen", "forty", "ninety-nine", "one hundred",
    ]  # fmt: skip
    assert RELATION["opposite"].facts["cold"] == "hot"
    assert RELATION["day-after"].facts["Sunday"] == "Monday"
    assert RELATION["letter-before"].facts["B"] == "A"


def test_a_subject_is_asked_for_as_its_relation_says() -> None:
    capital, letter = RELATION["capital"], RELATION["letter-after"]
    assert capital.fill("{x}'s {n} is {y}.", "France", "Paris") == "France's capital is Paris."
    assert letter.noun is None and RELATION["unit"].noun is None and RELATION["month-days"].noun is None
    assert letter.fill("What is the {np}?", "B") == "What is the letter after B?"
    assert Random(0).choice(capital.questions())
