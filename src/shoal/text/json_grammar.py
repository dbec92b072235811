"""A JSON Schema to a grammar of the JSON texts that are valid for it.

Between tokens of the JSON a text may have a space, or a line end and its indentation, and no more: a model that likes
blanks would otherwise never come to an end.
"""

import json
from collections.abc import Mapping
from typing import Any

from shoal.errors import OptionError

MOST_DEPTH, MOST_VALUES, MOST_BYTES, MOST_PROPERTIES = 64, 50_000, 256 << 10, 1000
WHITESPACE = r"( |\n[ \t]{0,32})"

Schema = Mapping[str, Any] | bool


def json_grammar(schema: object, where: str, *, is_strict: bool = True) -> str:
    """The grammar, to be compiled. What a schema asks that cannot be enforced is an error, unless not `is_strict`.

    Raises `OptionError`, naming `where`, for a schema that is none or too large.
    """
    return f"start: {json_rule(schema, where, is_strict=is_strict)}\n"


def json_rule(schema: object, where: str, *, is_strict: bool = True) -> str:
    """The same as the body of a rule, for a grammar that has other rules too."""
    check_schema(schema, where)
    if schema is False:
        raise OptionError(f"`{where}` is `false`, expected a JSON Schema that some value is valid for")
    body = dict(schema) if isinstance(schema, Mapping) else {}
    # Replaced, whatever a caller wrote there.
    body["x-guidance"] = {"whitespace_pattern": WHITESPACE, "lenient": not is_strict, "coerce_one_of": not is_strict}
    return "%json " + json.dumps(body)


def check_schema(schema: object, where: str) -> None:
    """Raises `OptionError` unless `schema` is an object or a boolean of bearable size."""
    if not isinstance(schema, Mapping | bool):
        raise OptionError(f"`{where}` is `{type(schema).__name__}`, expected a JSON Schema: an object")
    num_values, level, depth = 0, [schema], 0
    while level:
        depth += 1
        if depth > MOST_DEPTH:
            raise OptionError(f"`{where}` is nested over {MOST_DEPTH} deep, expected less")
        deeper: list[Any] = []
        for value in level:
            if isinstance(value, Mapping):
                _check_properties(value, where)
                deeper += value.values()
            elif isinstance(value, list):
                deeper += value
        num_values += len(deeper)
        if num_values > MOST_VALUES:
            raise OptionError(f"`{where}` has over {MOST_VALUES:,} values, expected fewer")
        level = deeper
    nbytes = len(json.dumps(schema))
    if nbytes > MOST_BYTES:
        raise OptionError(f"`{where}` has {nbytes:,} bytes, expected at most {MOST_BYTES:,}")


def _check_properties(schema: Mapping[str, Any], where: str) -> None:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and len(properties) > MOST_PROPERTIES:
        raise OptionError(
            f"`{where}` has an object of {len(properties):,} properties, expected at most {MOST_PROPERTIES:,}"
        )
