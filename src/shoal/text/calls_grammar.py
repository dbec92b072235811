"""Tool calls to a grammar: the block of spec, prompt.md §5, with values that fit each tool's schema.

A value is the raw text of a string, or JSON. Raw text cannot be held to a pattern or a format as JSON can, so that
strings with one are asked for as JSON, which a reader takes as well. Parameters come in the schema's order.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import OptionError
from shoal.text.answer_shape import CallsShape, ToolShape
from shoal.text.call_parameters import Way, target_of, ways_of
from shoal.text.json_grammar import Schema, check_schema, json_rule

RAW = r"/(?s:.*)<\//"
# A reader takes the tag apart at blanks and signs.
KEY = r"/[^\s\"\x27<>=\\\x00-\x1f]{1,64}/"
STRING = '" string="'
# Literals as a grammar writes them.
OPENING, NEXT, NONE = r'" calls>\n"', r'"\n<"', r'"\n</"'
INVOKE, PARAMETER, RAW_FLAG, JSON_FLAG = (
    r'" invoke name=\""',
    r'" parameter name=\""',
    r'"true\">"',
    r'"false\">"',
)
NOT_STRINGS = ("object", "array", "number", "integer", "boolean", "null")
# Beside these a string schema has something that only JSON can be held to.
_PLAIN_KEYS = {"type", "title", "description", "default", "examples", "deprecated", "$comment"}
_LENGTH_KEYS = {"minLength", "maxLength"}


def calls_grammar(shape: CallsShape, dsml_id: int) -> str:
    """The grammar of the block, from behind its opening tag's marker, or from the first call where it `is_opened`."""
    marker = f"<[{dsml_id}]>"
    opening = "" if shape.is_opened else f"{OPENING} "
    names = " | ".join(f"call_{index}" for index in range(len(shape.tools)))
    again = f"{marker} invoke | " if shape.is_parallel else ""
    # A lexer takes the longest piece it can, so no piece may begin like another that could stand in its place: line
    # ends and `<` come first, and what they belong to is told apart behind them.
    rules = [
        f'start: {opening}"<" {marker} invoke',
        f'invoke: {INVOKE} ({names}) {marker} " invoke>" {NEXT} ({again}"/" {marker} " calls>")',
        f"RAW: {RAW}",
        f"KEY: {KEY}",
    ]
    for index, tool in enumerate(shape.tools):
        rules += _tool_rules(tool, f"call_{index}", marker)
    return "\n".join(rules) + "\n"


def _tool_rules(tool: ToolShape, name: str, marker: str) -> list[str]:
    """Of a tool's calls, in any of the ways that its schema allows, from its name on; named `name` and what follows."""
    if tool.parameters is not None:
        check_schema(tool.parameters, tool.where)
    ways = [Way({}, (), True)] if tool.parameters is None else ways_of(tool)
    firsts = " | ".join(f"{name}_{index}_first_0" for index in range(len(ways)))
    rules = [f"{name}: {_literal(tool.name + chr(34) + '>' + chr(10))} ({firsts})"]
    for index, way in enumerate(ways):
        rules += _WayRules(tool, way, f"{name}_{index}", marker).rules()
    return rules


@dataclass(frozen=True)
class _WayRules:
    """The rules of one way to call a tool, to the slash of the closing tag; their names begin with `name`.

    `first_i` stands where no parameter has come and the i-th may, `after_i` behind the `<` that follows one.
    """

    tool: ToolShape
    way: Way
    name: str
    marker: str

    def rules(self) -> list[str]:
        """Of the parameters and their values."""
        rules, may_come = list[str](), {key: value for key, value in self.way.named.items() if value is not False}
        for index, (key, value) in enumerate(may_come.items()):
            rules += self._parameter(index, key, value, is_required=key in self.way.required)
        return rules + self._ends(len(may_come), self.way.named, self.way.extra)

    def _parameter(self, index: int, key: str, value: Schema, *, is_required: bool) -> list[str]:
        """A parameter that may be the first, or behind others, or absent where it is not required."""
        name, this = self.name, f"{self.name}_{index}"
        skips = ["", ""] if is_required else [f" | {name}_{way}_{index + 1}" for way in ("first", "after")]
        return [
            f'{name}_first_{index}: "<" {this} {NEXT} {name}_after_{index + 1}{skips[0]}',
            f"{name}_after_{index}: {this} {NEXT} {name}_after_{index + 1}{skips[1]}",
            f"{this}: {self._tag(_literal(key + STRING))} {this}_value",
            *self._value(f"{this}_value", value),
        ]

    def _tag(self, rest: str) -> str:
        return f"{self.marker} {PARAMETER} {rest}"

    def _value(self, rule: str, schema: Schema) -> list[str]:
        """From behind `string="`, to the end of the parameter."""
        raw, others = _split(schema, self.tool.parameters)
        ways, rules = [], []
        if raw:
            ways.append(f"{RAW_FLAG} {rule.upper()}")
            rules.append(f"{rule.upper()}: {' | '.join(raw)}")
        if others is not None:
            ways.append(f'{JSON_FLAG} {rule}_json "</"')
            body = _rooted(others, self.tool.parameters)
            rules.append(f"{rule}_json: {json_rule(body, self.tool.where, is_strict=self.tool.is_strict)}")
        if not ways:
            raise OptionError(f"`{self.tool.where}` has a parameter that no value is valid for")
        return [f'{rule}: ({" | ".join(ways)}) {self.marker} " parameter>"', *rules]

    def _ends(self, count: int, known: Mapping[str, Any], extra: Schema) -> list[str]:
        """What comes when all parameters that the schema names have been passed."""
        first, after = f"{self.name}_first_{count}", f"{self.name}_after_{count}"
        if extra is False:
            return [f"{first}: {NONE}", f'{after}: "/"']
        key = f"{self.name.upper()}_KEY"
        names = " | ".join(_literal(each) for each in known)
        return [
            f"{key}: KEY & ~({names})" if known else f"{key}: KEY",
            f"{self.name}_extra: {self._tag(key)} {_literal(STRING)} {self.name}_extra_value",
            *self._value(f"{self.name}_extra_value", extra),
            f'{first}: "<" {self.name}_extra {NEXT} {after} | {NONE}',
            f'{after}: {self.name}_extra {NEXT} {after} | "/"',
        ]


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _split(schema: Schema, root: object) -> tuple[list[str], Schema | None]:
    """Terminals of the raw texts that are valid strings, closed by `</`, and the schema of all other values.

    What is too involved to be split is asked for as JSON, strings too.
    """
    schema = _resolved(schema, root)
    if not isinstance(schema, Mapping) or not schema.keys() - _PLAIN_KEYS - {"type"}:
        types = schema.get("type") if isinstance(schema, Mapping) else None
        return _split_types(schema if isinstance(schema, Mapping) else {}, types)
    if "const" in schema or "enum" in schema:
        return _split_values(schema)
    if set(schema) <= {"anyOf", *_PLAIN_KEYS} - {"type"} and isinstance(schema["anyOf"], list):
        parts = [_split(each, root) for each in schema["anyOf"]]
        others = [each for _, each in parts if each is not None]
        raw = list(dict.fromkeys(text for texts, _ in parts for text in texts))
        return raw, {"anyOf": others} if others else None
    if schema.get("type") == "string" and set(schema) <= _PLAIN_KEYS | _LENGTH_KEYS:
        least, most = schema.get("minLength", 0), schema.get("maxLength", "")
        return [rf"/(?s:.{{{least},{most}}})<\//"], None
    return [], schema


def _split_types(schema: Mapping[str, Any], types: object) -> tuple[list[str], Schema | None]:
    if types == "string":
        return ["RAW"], None
    if types is None:
        return ["RAW"], {"type": list(NOT_STRINGS)}
    if isinstance(types, list) and "string" in types:
        others = [each for each in types if each != "string"]
        return ["RAW"], {**schema, "type": others} if others else None
    return [], schema


def _split_values(schema: Mapping[str, Any]) -> tuple[list[str], Schema | None]:
    """A list of values: each string is its own raw text. Anything beside the list is left to JSON."""
    if not set(schema) <= {"const", "enum", *_PLAIN_KEYS} or {"const", "enum"} <= set(schema):
        return [], schema
    values = [schema["const"]] if "const" in schema else schema["enum"]
    if not isinstance(values, list) or not _fits_type(values, schema.get("type")):
        return [], schema
    raw = [f"{_literal(each + '</')}" for each in values if isinstance(each, str)]
    others = [each for each in values if not isinstance(each, str)]
    return raw, {"enum": others} if others else None


def _fits_type(values: Sequence[object], types: object) -> bool:
    """Whether `type` says nothing that the values do not."""
    return types is None or (types == "string" and all(isinstance(each, str) for each in values))


def _resolved(schema: object, root: object) -> Any:
    """`schema`, or what its reference stands for; a reference that leads nowhere is left for the compiler to name."""
    seen = 0
    while isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str) and set(schema) <= {"$ref", *_PLAIN_KEYS}:
        target = target_of(schema["$ref"], root)
        seen += 1
        if target is None or seen > len(schema) + 64:
            return schema
        schema = target
    return schema


def _rooted(schema: Schema, root: object) -> Schema:
    """`schema` as a document of its own: the tool's whole schema goes with it where it refers to some of that."""
    if "$ref" not in json.dumps(schema):
        return schema
    moved = _moved(schema)
    assert isinstance(moved, dict)
    return {**moved, "$defs": {"root": _moved(root)}}


def _moved(value: object) -> object:
    """The same with local references to where `_rooted` keeps what they name."""
    if isinstance(value, Mapping):
        moved = {key: _moved(each) for key, each in value.items()}
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            moved["$ref"] = f"#/$defs/root{reference[1:]}"
        return moved
    return [_moved(each) for each in value] if isinstance(value, list) else value
