"""JSON Schemas of items. The schema comes from a file nobody vouches for, and the value from a model.

So a schema has no references, remote or local, and no regular expressions: checking a short reply always ends, soon.
"""

from collections.abc import Iterator, Mapping

# A schema uses these as keywords with values of these types; a property of the same name has an object.
_REFUSED = {"$ref": str, "$dynamicRef": str, "$recursiveRef": str, "pattern": str, "patternProperties": dict}


def schema_problem(schema: Mapping[str, object]) -> str | None:
    """What is wrong with `schema`, in words; None where values can be checked by it."""
    import jsonschema

    refused = next(_refused_keywords(schema), None)
    if refused is not None:
        return f"it has the keyword `{refused}`, expected neither references nor regular expressions"
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"`{'.'.join(map(str, error.path)) or 'schema'}`: {error.message[:200]}"
    return None


def validates(value: object, schema: Mapping[str, object]) -> bool:
    """Whether the parsed `value` is what `schema`, in which there is no problem, asks for."""
    import jsonschema

    try:
        return jsonschema.Draft202012Validator(schema).is_valid(value)
    except (RecursionError, OverflowError):  # a value nested, or a number large, beyond what can be compared
        return False


def _refused_keywords(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, member in schema.items():
            if isinstance(member, _REFUSED.get(key, ())):
                yield key
            yield from _refused_keywords(member)
    elif isinstance(schema, list):
        for member in schema:
            yield from _refused_keywords(member)
