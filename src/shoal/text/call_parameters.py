"""A tool's schema to the objects that its parameters may be: one for each way through references, `anyOf` and the like.

Parameters stand one by one in a call, so that what may come next has to be known by their names: each way is a flat
list of them. A call is valid for the schema when it is valid for one of its ways.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import OptionError
from shoal.text.answer_shape import ToolShape
from shoal.text.json_grammar import Schema

MOST_WAYS, MOST_DEPTH = 32, 16
# What a list of parameters cannot be held to.
_HARD = frozenset(
    {"patternProperties", "not", "if", "dependentRequired", "dependentSchemas", "dependencies", "minProperties"}
    | {"maxProperties", "propertyNames", "unevaluatedProperties", "enum", "const"}
)
_HINT = "leave out `strict`, or move what is hard into a property of its own: values may have any schema."


@dataclass(frozen=True)
class Way:
    """One object: its properties in order, a schema of `False` where a name may not stand, and what others may be."""

    properties: Mapping[str, Schema]
    required: tuple[str, ...]
    extra: Schema

    @property
    def is_possible(self) -> bool:
        """Whether everything that has to be there can be."""
        return all(self.properties.get(name, self.extra) is not False for name in self.required)

    @property
    def named(self) -> Mapping[str, Schema]:
        """All names that the schema says something of: in its order, those that are only required last."""
        only = {name: self.extra for name in self.required if name not in self.properties}
        return {**self.properties, **only}

    def closed(self) -> "Way":
        """Without any other."""
        return Way(self.named, self.required, False)


def ways_of(tool: ToolShape) -> Sequence[Way]:
    """At least one. Raises `OptionError`, which names the tool, for what is no object or, if strict, cannot be held to.

    A tool that `is_closed` takes no parameter that its schema does not name.
    """
    ways = _Reader(tool).ways(tool.parameters, 0)
    if not ways:
        raise OptionError(f"`{tool.where}` is no schema of an object, expected one with `properties`", hint=_HINT)
    return [way.closed() for way in ways] if tool.is_closed else ways


@dataclass(frozen=True)
class _Reader:
    tool: ToolShape

    def ways(self, schema: object, depth: int) -> list[Way]:
        """Those of a part of the tool's schema; none where it is not of objects."""
        if depth > MOST_DEPTH:
            raise self._problem(f"refers to itself, or is over {MOST_DEPTH} deep in alternatives")
        if schema is True:
            return [Way({}, (), True)]
        if not isinstance(schema, Mapping) or not _is_of_objects(schema):
            return []
        if self.tool.is_strict and (hard := sorted(_HARD & set(schema))):
            raise self._problem(f"has `{hard[0]}` beside its properties, which cannot be enforced")
        parts = [[_own(schema)], *self._references(schema, depth)]
        parts += [self.ways(part, depth + 1) for part in _list(schema, "allOf")]
        for name in ("anyOf", "oneOf"):
            if name in schema:
                parts.append([way for part in _list(schema, name) for way in self.ways(part, depth + 1)])
        if self.tool.is_strict and "oneOf" in schema and not _are_apart(parts[-1]):
            raise self._problem("has a `oneOf` whose parts no constant tells apart, expected `anyOf`")
        return self._product(parts)

    def _references(self, schema: Mapping[str, Any], depth: int) -> list[list[Way]]:
        if "$ref" not in schema:
            return []
        target = target_of(schema["$ref"], self.tool.parameters)
        if target is None:
            raise self._problem(f"refers to `{schema['$ref']}`, which does not exist")
        return [self.ways(target, depth + 1)]

    def _product(self, parts: Sequence[Sequence[Way]]) -> list[Way]:
        """What is valid for one way of each part."""
        count = 1
        for part in parts:
            count *= len(part)
        if count > MOST_WAYS:
            raise self._problem(f"has {count:,} alternatives, expected at most {MOST_WAYS}")
        found = []
        for chosen in itertools.product(*parts):
            way = chosen[0]
            for other in chosen[1:]:
                way = _joined(way, other)
            found.append(way)
        return [way for way in found if way.is_possible]

    def _problem(self, what: str) -> OptionError:
        return OptionError(f"`{self.tool.where}` {what}", hint=_HINT)


def target_of(reference: object, root: object) -> Any:
    """What a local reference names; None where it leads nowhere, or elsewhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found


def _is_of_objects(schema: Mapping[str, Any]) -> bool:
    types = schema.get("type", "object")
    is_one = types == "object" or (isinstance(types, list) and "object" in types)
    return is_one and isinstance(schema.get("properties", {}), Mapping)


def _own(schema: Mapping[str, Any]) -> Way:
    required = schema.get("required", [])
    names = tuple(name for name in required if isinstance(name, str)) if isinstance(required, list) else ()
    extra: Schema = schema.get("additionalProperties", True)
    return Way(dict(schema.get("properties", {})), names, extra)


def _list(schema: Mapping[str, Any], name: str) -> Sequence[object]:
    found = schema.get(name, ())
    return found if isinstance(found, list) else ()


def _joined(a: Way, b: Way) -> Way:
    """What is valid for both; a name that only one of them knows is an additional property of the other."""
    names = dict.fromkeys((*a.properties, *b.properties))
    properties = {name: _both(a.properties.get(name, a.extra), b.properties.get(name, b.extra)) for name in names}
    return Way(properties, tuple(dict.fromkeys((*a.required, *b.required))), _both(a.extra, b.extra))


def _both(a: Schema, b: Schema) -> Schema:
    if a is False or b is False:
        return False
    if a is True or a == {} or a == b:
        return b
    return a if b is True or b == {} else {"allOf": [a, b]}


def _are_apart(ways: Sequence[Way]) -> bool:
    """Whether a parameter that all of them require has other constants in each."""
    if len(ways) < 2:
        return True
    common = set(ways[0].required).intersection(*(way.required for way in ways[1:]))
    return any(_have_own_values([way.properties.get(name) for way in ways]) for name in common)


def _have_own_values(schemas: Sequence[object]) -> bool:
    seen: list[object] = []
    for schema in schemas:
        if not isinstance(schema, Mapping) or not {"const", "enum"} & set(schema):
            return False
        values = [schema["const"]] if "const" in schema else schema["enum"]
        if not isinstance(values, list) or any(value in seen for value in values):
            return False
        seen += values
    return True
