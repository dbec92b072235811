import json
from typing import Any

import jsonschema
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from answer_drawing import draw_answer
from shoal.errors import OptionError
from shoal.text.answer_constraint import constraint_maker
from shoal.text.answer_shape import AnswerShape, CallsShape, ToolShape
from shoal.text.grammar_vocabulary import GrammarVocabulary
from shoal.text.reply import parse_reply
from shoal.text.tokenizer import Tokenizer

LINK: dict[str, Any] = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Link"}, {"type": "null"}]}},
    "required": ["next"],
    "additionalProperties": False,
}
VALUES: list[Any] = [
    {"type": "string", "description": "a name"},
    {"type": "string", "minLength": 2, "maxLength": 9},
    {"enum": ["celsius", "fahren</heit", '"', ""]},
    {"enum": ["one", 1, None]},
    {"type": "string", "enum": ["x"]},
    {"type": "integer"},
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}]},
    {"type": "string", "format": "date"},
    {"type": "string", "pattern": "^[a-z]{3}$"},
    {"$ref": "#/$defs/Link"},
    {"$ref": "#/$defs/Name"},
    True,
]


def tools() -> st.SearchStrategy[dict[str, Any]]:
    def build(values: dict[str, Any], required: list[str], is_closed: bool) -> dict[str, Any]:
        closed = {"additionalProperties": False} if is_closed else {}
        defs = {"Link": LINK, "Name": {"type": "string"}}
        required = [name for name in required if name in values]
        return {"type": "object", "properties": values, "required": required, **closed, "$defs": defs}

    names = st.sampled_from(["city", "unit", "größe", "when"])
    return st.builds(
        build,
        st.dictionaries(names, st.sampled_from(VALUES), max_size=3),
        st.lists(names, max_size=3, unique=True),
        st.booleans(),
    )


@given(
    st.lists(tools(), min_size=1, max_size=2), st.integers(0, 2**32), st.sampled_from(["auto", "required", "opened"])
)
@settings(max_examples=25, phases=[Phase.generate], deadline=None)
def test_whatever_calls_are_drawn_are_valid_for_their_tools(
    vocabulary: GrammarVocabulary, mini: Tokenizer, schemas: list[dict[str, Any]], seed: int, choice: str
) -> None:
    shapes = tuple(ToolShape(f"tool_{index}", schema, "tools") for index, schema in enumerate(schemas))
    calls = CallsShape(shapes, choice != "auto", is_opened=choice == "opened")
    thinks = choice == "required"
    ids, has_ended = draw_answer(mini, constraint_maker(vocabulary, AnswerShape(thinks, calls=calls)), seed, 1030, 1500)
    assert has_ended
    opening = "\n\n<｜DSML｜ calls>\n" if choice == "opened" else ""
    reply = parse_reply(opening + mini.decode(ids), thinking=thinks, tools=True)
    assert len(reply.calls) >= (choice != "auto")
    for call in reply.calls:
        jsonschema.validate(json.loads(call.arguments), schemas[int(call.name.removeprefix("tool_"))])


def test_a_tool_that_asks_for_nothing_has_an_empty_line(vocabulary: GrammarVocabulary, mini: Tokenizer) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    calls = CallsShape((ToolShape("now", schema, "tools"),), True, is_parallel=False)
    ids, has_ended = draw_answer(mini, constraint_maker(vocabulary, AnswerShape(False, calls=calls)), 0, 1030)
    assert has_ended
    assert mini.decode(ids) == (
        '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="now">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
    )


def accepts(vocabulary: GrammarVocabulary, mini: Tokenizer, calls: CallsShape, text: str) -> bool:
    constraint = constraint_maker(vocabulary, AnswerShape(False, calls=calls))()
    for token_id in mini.encode_with_markers(text):
        if not constraint.mask()[token_id]:
            return False
        constraint.accept(token_id)
    return constraint.is_done


def invoke(*params: str) -> str:
    tags = [
        f'<｜DSML｜ parameter name="{name}" string="{flag}">{value}</｜DSML｜ parameter>'
        for name, flag, value in (each.split(":", 2) for each in params)
    ]
    return '<｜DSML｜ invoke name="f">\n' + "\n".join(tags) + "\n</｜DSML｜ invoke>"


FIRST = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["b", "c"]}
CLOSING = "\n</｜DSML｜ calls>"


@pytest.mark.parametrize(
    ("body", "is_right"),
    [
        (invoke("a:true:x", "b:false:1", "c:true:y") + CLOSING, True),
        (invoke("b:false:1", "c:false:{}") + CLOSING, True),
        (invoke("b:false:1", "c:true:y", "more:true:z") + CLOSING, True),
        (invoke("b:false:1", "c:true:y") + "\n" + invoke("b:false:2", "c:true:z") + CLOSING, True),
        (invoke("b:false:1", "c:true:y", "a:true:z") + CLOSING, False),
        (invoke("a:true:x", "b:false:1") + CLOSING, False),
        (invoke("b:true:1", "c:true:y") + CLOSING, False),
        (invoke("b:false:1.5", "c:true:y") + CLOSING, False),
        (invoke("b:false:1", 'c:false:"y"') + CLOSING, False),
        (invoke("b:false:1", "c:true:y"), False),
    ],
)
def test_what_is_a_call_and_what_is_none(
    vocabulary: GrammarVocabulary, mini: Tokenizer, body: str, is_right: bool
) -> None:
    calls = CallsShape((ToolShape("f", FIRST, "tools"),), True, is_opened=True)
    assert accepts(vocabulary, mini, calls, body) is is_right


def test_one_call_is_all_where_calls_are_not_parallel(vocabulary: GrammarVocabulary, mini: Tokenizer) -> None:
    calls = CallsShape((ToolShape("f", None, "tools"),), True, is_parallel=False, is_opened=True)
    assert accepts(vocabulary, mini, calls, invoke("x:true:1") + CLOSING)
    assert not accepts(vocabulary, mini, calls, invoke("x:true:1") + "\n" + invoke("x:true:1") + CLOSING)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "object", "properties": 1}, "is no schema of an object"),
        ({"patternProperties": {"a": True}}, "has `patternProperties` beside its properties"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "is no schema of an object"),
        ({"anyOf": [{"$ref": "#"}]}, "refers to itself"),
        ({"$ref": "#/$defs/none"}, "refers to `#/$defs/none`, which does not exist"),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "expected `anyOf`"),
        ({"allOf": [{"anyOf": [{"title": str(i)} for i in range(6)]}] * 2}, "has 36 alternatives, expected at most 32"),
        (
            {"properties": {"a": {}}, "required": ["a"], "allOf": [{"additionalProperties": False}]},
            "is no schema of an",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "does not exist"),
        ({"properties": {"a": {"type": "string", "pattern": "("}}}, "unclosed group"),
        ({"properties": {"a": {"enum": []}}}, "no value is valid for"),
    ],
)
def test_a_tool_that_cannot_be_enforced_is_an_error_that_names_it(
    vocabulary: GrammarVocabulary, schema: dict[str, Any], words: str
) -> None:
    calls = CallsShape((ToolShape("f", schema, "tools[0].parameters"),), True)
    with pytest.raises(OptionError, match=r"`tools\[0\]\.parameters`") as caught:
        constraint_maker(vocabulary, AnswerShape(False, calls=calls))
    assert words in caught.value.message and "\n" not in caught.value.message


ROUND = {"type": "object", "properties": {"kind": {"const": "round"}, "r": {"type": "integer"}}}
ROUND |= {"required": ["kind", "r"]}
LONG = {"type": "object", "properties": {"kind": {"enum": ["long"]}, "r": {"type": "string"}, "w": {"type": "integer"}}}
LONG |= {"required": ["kind", "w"]}
DEFS: dict[str, Any] = {"Round": ROUND, "Long": LONG}
EITHER: list[Any] = [{"$ref": "#/$defs/Round"}, {"$ref": "#/$defs/Long"}]
WAYS: list[dict[str, Any]] = [
    {"$ref": "#/$defs/Round", "$defs": DEFS},
    {"anyOf": EITHER, "$defs": DEFS},
    {"oneOf": EITHER, "discriminator": {"propertyName": "kind"}, "$defs": DEFS},
    {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "anyOf": EITHER,
        "$defs": DEFS,
    },
    {"allOf": [{"properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"anyOf": EITHER}], "$defs": DEFS},
    {"anyOf": [{"type": "null"}, {"required": ["a"]}, {"properties": {"a": False}, "required": ["b"]}]},
    {"properties": {"a": {"type": "integer"}}, "anyOf": [{"properties": {"a": {"minimum": 3}}}, {"maxProperties": 0}]},
]


@given(st.sampled_from(WAYS), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=20, phases=[Phase.generate], deadline=None)
def test_whatever_calls_are_drawn_are_valid_for_one_of_the_ways_of_their_tool(
    vocabulary: GrammarVocabulary, mini: Tokenizer, schema: dict[str, Any], is_closed: bool, seed: int
) -> None:
    is_strict = "maxProperties" not in json.dumps(schema)
    tool = ToolShape("f", schema, "tools", is_strict, is_closed and is_strict)
    maker = constraint_maker(vocabulary, AnswerShape(False, calls=CallsShape((tool,), True, is_opened=True)))
    ids, has_ended = draw_answer(mini, maker, seed, 1030, 1500)
    assert has_ended
    reply = parse_reply("\n\n<｜DSML｜ calls>\n" + mini.decode(ids), thinking=False, tools=True)
    for call in reply.calls:
        if is_strict:
            jsonschema.validate(json.loads(call.arguments), schema)
        if tool.is_closed:
            assert set(json.loads(call.arguments)) <= {"kind", "r", "w", "name", "n", "a", "b"}


@pytest.mark.parametrize(
    ("schema", "body", "is_right"),
    [
        (WAYS[0], invoke("kind:true:round", "r:false:1"), True),
        (WAYS[0], invoke("kind:true:round"), False),
        (WAYS[1], invoke("kind:true:round", "r:false:1"), True),
        (WAYS[1], invoke("kind:true:long", "r:true:x", "w:false:1"), True),
        (WAYS[1], invoke("kind:true:long", "w:false:1"), True),
        (WAYS[1], invoke("kind:true:round", "r:true:x"), False),
        (WAYS[1], invoke("kind:true:long", "r:false:1"), False),
        (WAYS[2], invoke("kind:true:long", "w:false:1"), True),
        (WAYS[3], invoke("name:true:x", "kind:true:long", "w:false:1"), True),
        (WAYS[3], invoke("kind:true:long", "w:false:1"), False),
        (WAYS[4], invoke("n:false:1", "kind:true:round", "r:false:1"), True),
        (WAYS[4], invoke("n:false:1"), False),
        (WAYS[5], invoke("b:true:x"), True),
        (WAYS[5], invoke("c:true:x"), False),
    ],
)
def test_a_call_fits_one_of_the_ways_of_its_tool_and_no_other(
    vocabulary: GrammarVocabulary, mini: Tokenizer, schema: dict[str, Any], body: str, is_right: bool
) -> None:
    for is_closed in (False, True):
        calls = CallsShape((ToolShape("f", schema, "tools", True, is_closed),), True, is_opened=True)
        assert accepts(vocabulary, mini, calls, body + CLOSING) is is_right


def test_a_closed_tool_takes_no_parameter_that_it_does_not_name(vocabulary: GrammarVocabulary, mini: Tokenizer) -> None:
    body = invoke("kind:true:round", "r:false:1", "more:true:x") + CLOSING
    for is_closed in (False, True):
        calls = CallsShape((ToolShape("f", WAYS[0], "tools", True, is_closed),), True, is_opened=True)
        assert accepts(vocabulary, mini, calls, body) is not is_closed
