"""The body of `/v1/responses`, and the turn that it asks for."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import deepseek_recipe as recipe
from pydantic import ConfigDict, Field

from shoal.engine.sampling_options import SamplingOptions
from shoal.serve.adapted import Wanted, as_object, check_counts, conversion_options, conversion_problem, make_turn
from shoal.serve.errors import ApiError
from shoal.serve.foreign_fields import check_includes
from shoal.serve.sampling import SamplingFields, top_logprobs
from shoal.serve.served import Served
from shoal.serve.stream import Turn
from shoal.serve.structured import content_shape
from shoal.serve.thinking import Thinking, read_thinking

# deepseek-recipe's, where a request names no number.
_DEFAULT_TOKENS, _DEFAULT_THINKING_TOKENS, _DEFAULT_MAX_EFFORT_TOKENS = 8192, 65536, 131072


class ResponsesBody(SamplingFields):
    """OpenAI's fields, and those by which other endpoints draw tokens. Others are ignored."""

    model_config = ConfigDict(extra="allow")

    input: str | list[dict[str, Any]] | None = None
    instructions: str | None = None
    stream: bool | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    include: list[str] | None = None
    top_logprobs: int | None = None


@dataclass(frozen=True)
class ResponsesTurn:
    """A turn, `items` of the whole conversation before it, and how its chunks are made."""

    turn: Turn
    items: list[Any]
    generator: recipe.ResponsesChunkGenerator


def input_items(served: Served, body: ResponsesBody) -> list[Any]:
    """Of the response it follows, and of the request. Not for another thread. Raises `ApiError`."""
    given = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else list(body.input or ())
    if body.previous_response_id is None:
        return given
    return served.responses.get(body.previous_response_id, "previous_response_id").items + given


def responses_turn(served: Served, body: ResponsesBody, items: list[Any], response_id: str) -> ResponsesTurn:
    """What `body` asks for behind `items`. Raises `ApiError` naming the field that is wrong."""
    limits = served.options.limits
    counts = (("input", items, limits.messages), ("tools", body.tools, limits.tools))
    check_counts(limits, counts, {"tools": body.tools, "text": body.text})
    check_includes(body.include or [])
    if body.background:
        raise ApiError(400, "`background` is true, expected a request that is waited for", param="background")
    if body.tool_choice == "required" and not body.tools:
        raise ApiError(400, "`tool_choice` is `required`, expected `tools` with it", param="tool_choice")
    text_format = (body.text or {}).get("format")
    if text_format is not None and not isinstance(text_format, Mapping):
        raise ApiError(400, "`text.format` is no object, expected one", param="text.format")
    content = content_shape(text_format, "text.format")
    thinking = _thinking(body)
    given = body.model_dump(exclude_none=True) | {"model": body.model or "shoal", "input": items}
    for name in ("temperature", "top_p", "max_output_tokens", "previous_response_id", "stop"):
        given.pop(name, None)
    options = conversion_options(given["model"])
    try:
        echo = recipe.ResponsesRequest(_echoed(given, body)).echo()
        request = recipe.ResponsesRequest(_readable(given, thinking))
        names = request.namespace_tool_map(options)
        converted = request.convert(options)
    except (ValueError, recipe.ConversionError) as problem:
        raise conversion_problem(problem) from None
    strict = dict(_strict(body.tools or ()))
    wanted = Wanted(
        _sampling(body, thinking), thinking, body.stop or (), content, body.parallel_tool_calls is not False
    )
    turn = make_turn(served, converted.conversation, wanted, strict, continues=False)
    generator = recipe.ResponsesRequest.chunk_generator(converted, response_id, served.options.model_name)
    return ResponsesTurn(turn, items, generator.with_namespace_tool_map(names).with_echo(echo))


def _echoed(given: Mapping[str, Any], body: ResponsesBody) -> dict[str, Any]:
    """What the response tells of the request; formats that only we know are told as text."""
    told = {name: getattr(body, name) for name in ("temperature", "top_p", "max_output_tokens")}
    return _plain_format(given) | {name: value for name, value in told.items() if value is not None}


def _readable(given: Mapping[str, Any], thinking: Thinking) -> dict[str, Any]:
    """For deepseek-recipe; of a tool that it takes for strict it would leave out what it does not enforce itself."""
    effort = thinking.effort if isinstance(thinking.effort, str) else "high"
    tools = {"tools": [_lenient(tool) for tool in given["tools"]]} if "tools" in given else {}
    return _plain_format(given) | tools | {"reasoning": {"effort": effort if thinking.is_on else "none"}}


def _lenient(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool, or a namespace of tools."""
    inner = tool.get("tools")
    if isinstance(inner, list):
        return dict(tool) | {"tools": [_lenient(each) if isinstance(each, Mapping) else each for each in inner]}
    given = {"strict": False} if "strict" in tool else {}
    return dict(tool) | given | ({"parameters": as_object(tool["parameters"])} if "parameters" in tool else {})


def _strict(tools: Iterable[object], before: str = "") -> Iterator[tuple[str, bool]]:
    """Whether each tool is, by the name that the conversation has for it."""
    for tool in tools:
        if isinstance(tool, Mapping):
            name = f"{before}{tool.get('name')}"
            yield name, bool(tool.get("strict"))
            inner = tool.get("tools")
            yield from _strict(inner if isinstance(inner, list) else (), f"{name}::")


def _plain_format(given: Mapping[str, Any]) -> dict[str, Any]:
    text = given.get("text")
    if text is None or text.get("format", {}).get("type") not in ("regex", "grammar"):
        return dict(given)
    return dict(given) | {"text": {**text, "format": {"type": "text"}}}


def _thinking(body: ResponsesBody) -> Thinking:
    """From `reasoning.effort`, a name or 1 to 100. A call that has to come leaves no room for a thought."""
    thinking = read_thinking((body.reasoning or {}).get("effort"), None, None, field="reasoning.effort")
    is_demanded = body.tool_choice == "required" or (
        isinstance(body.tool_choice, Mapping) and body.tool_choice.get("type") != "allowed_tools"
    )
    return Thinking(is_on=False) if is_demanded else thinking


def _sampling(body: ResponsesBody, thinking: Thinking) -> SamplingOptions:
    default = _DEFAULT_TOKENS
    if thinking.is_on:
        default = _DEFAULT_MAX_EFFORT_TOKENS if thinking.effort == "max" else _DEFAULT_THINKING_TOKENS
    wants = body.top_logprobs or "message.output_text.logprobs" in (body.include or ())
    return body.options(body.max_output_tokens or default, top_logprobs(body.top_logprobs) if wants else None)
