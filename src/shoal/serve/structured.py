"""What the answer to a request has to be, read from its fields, and compiled to what enforces it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from shoal.engine.constraint import ConstraintMaker
from shoal.errors import OptionError
from shoal.serve.errors import ApiError, as_api_error
from shoal.serve.served import Served
from shoal.text.answer_constraint import constraint_maker
from shoal.text.answer_shape import AnswerShape, CallsShape, ContentShape, ToolShape

_KINDS = "`text`, `json_object`, `json_schema`, `regex` or `grammar`"


def content_shape(wanted: Mapping[str, Any] | None, where: str) -> ContentShape | None:
    """The format that is wanted of the content, at the field `where`; None where any text will do.

    `json_schema` holds its fields itself, as the responses API has them, or in an object of that name, as chat
    completions do. `regex` and `grammar` (Lark) are ours. Raises `ApiError`.
    """
    kind = "text" if wanted is None else wanted.get("type", "text")
    if wanted is None or kind == "text":
        return None
    if kind == "json_object":
        return ContentShape("json", {"type": "object"}, where)
    if kind == "json_schema":
        inner = wanted.get("json_schema", wanted)
        where = f"{where}.json_schema" if "json_schema" in wanted else where
        if not isinstance(inner, Mapping) or "schema" not in inner:
            raise ApiError(400, f"`{where}` has no `schema`, expected a JSON Schema", param=where, code="invalid_value")
        return ContentShape("json", inner["schema"], f"{where}.schema", bool(inner.get("strict")))
    if kind in ("regex", "grammar"):
        rule = wanted.get(kind, wanted.get("pattern"))
        if not isinstance(rule, str) or not rule:
            raise ApiError(400, f"`{where}.{kind}` is missing, expected text", param=f"{where}.{kind}")
        return ContentShape("regex" if kind == "regex" else "lark", rule, f"{where}.{kind}")
    raise ApiError(400, f"`{where}.type` is `{kind}`, expected {_KINDS}"[:300], param=where, code="invalid_value")


def calls_shape(
    tools: Sequence[Mapping[str, Any]],
    choice: Literal["auto", "none", "required"],
    *,
    is_parallel: bool = True,
    is_opened: bool = True,
) -> CallsShape | None:
    """How calls of `tools`, as any of the protocols has them, are held to their schemas: all where a call has to come,
    else the strict ones, which have to be all or none.

    `is_opened`: the prompt of a call that has to come has opened the block. Raises `ApiError`.
    """
    functions = [tool.get("function", tool) for tool in tools]
    strict = [bool(function.get("strict")) for function in functions]
    if choice == "none" or not tools or not (choice == "required" or any(strict)):
        return None
    if any(strict) and not all(strict):
        name = functions[strict.index(False)].get("name")
        message = f"the tool `{name}` is not `strict` while another is, expected all or none of `tools`"
        raise ApiError(400, message, param="tools", code="invalid_value")
    shapes = tuple(
        # A strict tool takes what it names and nothing else, as OpenAI has it.
        ToolShape(function["name"], _parameters(function), f"tools[{index}].parameters", is_strict, is_strict)
        for index, (function, is_strict) in enumerate(zip(functions, strict, strict=True))
    )
    required = choice == "required"
    return CallsShape(shapes, required, is_parallel, required and is_opened)


def _parameters(function: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = function.get("parameters", function.get("input_schema"))
    return found if isinstance(found, Mapping) else None


def compile_shape(
    served: Served, *, thinking: bool, content: ContentShape | None, calls: CallsShape | None
) -> ConstraintMaker | None:
    """What enforces it; not for the event loop's thread. Raises `ApiError` for what cannot be enforced."""
    if content is not None and calls is not None:
        raise ApiError(400, f"`{content.where}` cannot go with tools that are enforced", param=content.where)
    if content is None and calls is None:
        return None
    try:
        return constraint_maker(served.model.grammars(), AnswerShape(thinking, content, calls))
    except OptionError as problem:
        raise as_api_error(problem) from None
