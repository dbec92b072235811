"""The built-in items: well-formed, right by hand-written checks, and held out where they say so."""

import json
import re
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

import shoal.errors
from shoal.assemble import MINIATURE
from shoal.text.chat import ChatOptions, render_chat
from shoal.text.tokenizer import Tokenizer
from training.corpus import documents
from training.corpus.arithmetic import is_held_out
from training.corpus.relations import RELATIONS
from training.corpus.schemas import Record
from training.items.__main__ import suites
from training.items.copying import DISTANCES, TOLERANCE, copying_items

PACKAGE = Path(shoal.errors.__file__).parent
EVAL = PACKAGE / "data" / "eval"
SUITES = ("facts", "chat", "tools", "json", "arithmetic", "copying", "text")
CHECKS = {"answer", "equals", "calls", "schema", "ends"}


def read(suite: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EVAL / f"{suite}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(MINIATURE)


@pytest.mark.parametrize("suite", SUITES)
def test_every_item_is_well_formed_and_can_be_rendered(suite: str, tokenizer: Tokenizer) -> None:
    for item in read(suite):
        assert isinstance(item["group"], str)
        assert sum(key in item for key in ("prompt", "messages", "text")) == 1
        if suite == "text":
            assert item["text"].strip()
            continue
        assert item["expect"] and set(item["expect"]) <= CHECKS
        assert 0 < item["max_new_tokens"] <= 256
        if "messages" in item:
            options = ChatOptions(
                thinking=item.get("thinking", False),
                effort=item.get("effort"),
                tools=item.get("tools", ()),
                response_schema=item.get("response_schema"),
            )
            assert render_chat(tokenizer, item["messages"], options)[-1] in (
                tokenizer.marker_id("<think>"),
                tokenizer.marker_id("</think>"),
            )


def test_all_items_together_are_small() -> None:
    assert sorted(path.stem for path in EVAL.iterdir()) == sorted(SUITES)
    assert sum(path.stat().st_size for path in EVAL.iterdir()) < 700_000


@pytest.mark.parametrize(
    ("suite", "groups"),
    [
        ("facts", {"seen": 300, "held-out": 200}),
        ("arithmetic", {"held-out": 200, "seen": 100}),
        ("copying", {"copy-50": 60, "copy-150": 60, "copy-300": 60}),
        ("chat", {"plain": 50, "system": 30, "turns": 30, "thinking": 40}),
        ("json", {"valid": 100, "exact": 50}),
    ],
)
def test_a_suite_has_its_groups(suite: str, groups: dict[str, int]) -> None:
    assert Counter(item["group"] for item in read(suite)) == groups


@pytest.mark.parametrize("suite", [name for name in SUITES if name != "copying"])
def test_the_files_are_what_the_generator_writes(suite: str, tokenizer: Tokenizer) -> None:
    # Copying is measured with the tokenizer that it was written for; texts are only bounded by it.
    if suite != "text":
        assert list(suites(tokenizer)[suite]) == read(suite)


def test_the_first_fact_is_the_one_everyone_tries() -> None:
    first = read("facts")[0]
    assert (first["prompt"], first["expect"]) == ("The capital of France is", {"answer": "Paris"})


def test_facts_ask_in_the_words_of_their_group() -> None:
    corpus = "\n".join(document.text() for document in islice(documents(6), 20_000))
    held_out = [item for item in read("facts") if item["group"] == "held-out"]
    asked = [item.get("prompt") or item["messages"][-1]["content"] for item in held_out]
    assert [prompt for prompt in asked if prompt in corpus] == []
    relations = {relation.name: relation for relation in RELATIONS}
    assert "Can you tell me the capital of " in " ".join(asked)
    assert relations["capital"].facts["Japan"] == "Tokyo"


def test_sums_are_right_and_in_their_group() -> None:
    for item in read("arithmetic"):
        prompt = item.get("prompt") or item["messages"][-1]["content"]
        left, right = map(int, re.findall(r"\d+", prompt))
        assert item["expect"]["answer"].rpartition("=")[2] == str(left + right)
        assert is_held_out(left, right) == (item["group"] == "held-out")


def test_a_call_names_an_offered_tool_and_what_the_user_said() -> None:
    items = [item for item in read("tools") if item["expect"].get("calls")]
    assert len(items) > 100
    for item in items:
        offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in item["tools"]}
        asked = re.findall(r"\w+", item["messages"][-1]["content"])
        for call in item["expect"]["calls"]:
            assert list(call["arguments"]) == offered[call["name"]]["required"]
            for value in call["arguments"].values():
                word = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
                assert word in asked


def test_a_turn_without_tools_expects_no_call() -> None:
    items = [item for item in read("tools") if item["group"] == "no-tool"]
    assert items and all(item["expect"]["calls"] == [] for item in items)


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    if "enum" in schema:
        return value in schema["enum"]
    kind = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}[schema["type"]]
    return type(value) is kind


def test_exact_json_fits_its_schema_and_is_held_out() -> None:
    for item in read("json"):
        schema = item["response_schema"]
        assert item["expect"]["schema"] == schema
        if item["group"] == "exact":
            record = json.loads(item["expect"]["equals"])
            assert list(record) == schema["required"] == list(schema["properties"])
            assert all(_fits(record[name], schema["properties"][name]) for name in record)
            assert len(record) == 1 or Record(record, "").is_held_out()


def test_a_needle_lies_where_its_group_says_behind_a_front(tokenizer: Tokenizer) -> None:
    items = list(copying_items(Random(1), tokenizer))
    for item in items[::6]:
        distance = int(item["group"].removeprefix("copy-"))
        question = item["prompt"].rpartition(". ")[2]
        value = item["expect"]["answer"]
        front, found, behind = item["prompt"].rpartition(f"{question} {value}.")
        assert found
        assert abs(len(tokenizer.encode(f" {value}.{behind}")) - distance) <= TOLERANCE
        assert len(tokenizer.encode(front)) > DISTANCES[distance] / 2


def test_a_needle_of_the_written_file_is_told_once() -> None:
    for item in read("copying"):
        question = item["prompt"].rpartition(". ")[2]
        assert item["prompt"].count(f"{question} {item['expect']['answer']}.") == 1
        assert item["prompt"].count(f"{question} ") == 1
