"""Schemas: ordinary ones check, hostile ones are refused."""

from typing import Any

import pytest

from shoal.eval.schema import schema_problem, validates

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"items": {"enum": ["a", "b"]}}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ({"name": "Anna"}, True),
        ({"name": "Anna", "age": 3, "tags": ["a"]}, True),
        ({"name": "Anna", "age": True}, False),
        ({"name": "Anna", "tags": ["c"]}, False),
        ({"age": 3}, False),
        ({"name": "Anna", "more": 1}, False),
        ([], False),
    ],
)
def test_a_value_is_what_the_schema_asks_for_or_not(value: object, valid: bool) -> None:
    assert schema_problem(PERSON) is None
    assert validates(value, PERSON) is valid


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "text"}, "`type`: 'text' is not valid"),
        ({"properties": {"a": {"minimum": "1"}}}, "`properties.a.minimum`: '1' is not of type 'number'"),
        ({"$ref": "http://example.org/schema"}, "the keyword `$ref`"),
        ({"$defs": {"a": {}}, "allOf": [{"$ref": "#/$defs/a"}]}, "the keyword `$ref`"),
        ({"items": {"$dynamicRef": "#a"}}, "the keyword `$dynamicRef`"),
        ({"properties": {"a": {"pattern": "(a+)+$"}}}, "the keyword `pattern`"),
        ({"patternProperties": {"(a+)+$": {}}}, "the keyword `patternProperties`"),
    ],
)
def test_a_schema_that_cannot_be_checked_by_says_why(schema: dict[str, Any], says: str) -> None:
    problem = schema_problem(schema)
    assert problem is not None
    assert says in problem


def test_a_property_may_be_called_like_a_keyword() -> None:
    schema = {"properties": {"pattern": {"type": "string"}, "$ref": {"type": "string"}}}
    assert schema_problem(schema) is None
    assert validates({"pattern": "(a+)+$", "$ref": "x"}, schema)


@pytest.mark.parametrize("schema", [{"uniqueItems": True}, {"const": []}, {"multipleOf": 0.5}, {"not": {}}])
def test_a_value_that_is_too_much_is_not_valid(schema: dict[str, Any]) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for value in ([deep, deep], deep, 10**400):
        assert validates(value, schema) in (True, False)
