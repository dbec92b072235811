import json
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from answer_drawing import draw_answer
from shoal.errors import OptionError
from shoal.text.answer_constraint import constraint_maker
from shoal.text.answer_shape import AnswerShape, ContentShape
from shoal.text.grammar_vocabulary import GrammarVocabulary
from shoal.text.json_grammar import MOST_PROPERTIES, Schema, json_grammar
from shoal.text.tokenizer import Tokenizer


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


LEAVES: list[Schema] = [
    {"type": "integer", "minimum": -5, "maximum": 300},
    {"type": "number", "exclusiveMinimum": 0},
    {"type": "string", "minLength": 1, "maxLength": 12},
    {"type": "string", "pattern": "^[a-c]+-[0-9]{2}$"},
    {"type": "string", "format": "date"},
    {"enum": ["red", 'gr"een', "</think>", 7, None, ["x"]]},
    {"const": {"k": [1, 2]}},
    {"type": ["boolean", "null"]},
]


def objects(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def build(properties: dict[str, Any], is_closed: bool, all_required: bool) -> dict[str, Any]:
        required = list(properties) if all_required else list(properties)[:1]
        closed = {"additionalProperties": False} if is_closed else {}
        return {"type": "object", "properties": properties, "required": required, **closed}

    names = st.sampled_from(["a", "b c", "é", "d"])
    return st.builds(build, st.dictionaries(names, parts, min_size=1, max_size=3), st.booleans(), st.booleans())


SCHEMAS = st.recursive(
    st.sampled_from(LEAVES),
    lambda parts: st.one_of(
        objects(parts),
        st.builds(lambda part: {"type": "array", "items": part, "minItems": 1, "maxItems": 3}, parts),
        st.builds(lambda one, other: {"anyOf": [one, other]}, parts, parts),
    ),
    max_leaves=5,
)


@given(SCHEMAS, st.integers(0, 2**32), st.booleans())
@settings(max_examples=40, phases=[Phase.generate], deadline=None)
def test_whatever_is_drawn_is_valid_for_its_schema(
    vocabulary: GrammarVocabulary, mini: Tokenizer, schema: Schema, seed: int, thinks: bool
) -> None:
    maker = constraint_maker(vocabulary, AnswerShape(thinks, ContentShape("json", schema, "schema")))
    ids, has_ended = draw_answer(mini, maker, seed, vocabulary.size)
    assert has_ended
    text = mini.decode(ids)
    jsonschema.validate(json.loads(text.partition("</think>")[2] if thinks else text), schema)


def test_there_is_no_end_of_blanks(vocabulary: GrammarVocabulary, mini: Tokenizer) -> None:
    matcher = vocabulary.matcher(json_grammar({"type": "object"}, "x"), "x").deep_copy()
    assert matcher.try_consume_tokens(mini.encode("{\n" + 32 * " ")) == len(mini.encode("{\n" + 32 * " "))
    assert not matcher.try_consume_tokens(mini.encode(" "))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([1], "is `list`, expected a JSON Schema"),
        ("abc", "is `str`"),
        (False, "that some value is valid for"),
        (nested(5000), "is nested over 64 deep"),
        ({"enum": list(range(60_000))}, "has over 50,000 values"),
        ({"const": "x" * 300_000}, "bytes, expected at most 262,144"),
        ({"properties": {str(each): {} for each in range(MOST_PROPERTIES + 1)}}, "an object of 1,001 properties"),
        ({"type": "objekt"}, "Invalid type: objekt"),
        ({"$ref": "#"}, "no text fulfils it"),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}}, "$ref": "#/$defs/a"}, "circular"),
        ({"$ref": "http://x/y"}, "does not fetch"),
        ({"$ref": "#/$defs/none"}, "does not exist"),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "Unsatisfiable"),
        ({"type": "string", "pattern": "("}, "unclosed group"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"const": "\ud800"}, "cannot be enforced"),
        ({"type": "integer", "multipleOf": 999999937, "minimum": 0, "maximum": 10**18}, "fuel exhausted"),
        (
            {"allOf": [{"anyOf": [{"properties": {f"{i}": {"const": j}}} for j in range(10)]} for i in range(10)]},
            "too large",
        ),
    ],
)
def test_a_hostile_schema_is_refused_soon_and_by_name(vocabulary: GrammarVocabulary, schema: Any, words: str) -> None:
    started = time.process_time()
    with pytest.raises(OptionError, match=r"`text\.format\.schema`") as caught:
        constraint_maker(vocabulary, AnswerShape(False, ContentShape("json", schema, "text.format.schema")))
    assert words in caught.value.message and "\n" not in caught.value.message
    assert time.process_time() - started < 10


@pytest.mark.parametrize("pattern", ["^((a{0,1000}){0,1000}){0,1000}$", "^(a|aa)*b(.*a.{20})$", "(x+x+)+y", "a.{30}$"])
def test_a_pattern_that_grows_costs_little_a_token(
    vocabulary: GrammarVocabulary, mini: Tokenizer, pattern: str
) -> None:
    schema = {"type": "string", "pattern": pattern, "maxLength": 200}
    maker = constraint_maker(vocabulary, AnswerShape(False, ContentShape("json", schema, "x")))
    started = time.process_time()
    draw_answer(mini, maker, 1, vocabulary.size, 60)
    assert time.process_time() - started < 10


def test_what_cannot_be_enforced_is_left_out_where_it_need_not_be() -> None:
    grammar = json_grammar({"type": "array", "uniqueItems": True}, "x", is_strict=False)
    assert '"lenient": true' in grammar
    assert '"lenient": false' in json_grammar({"x-guidance": {"lenient": True}}, "x")
