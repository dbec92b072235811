"""The body of `/v1/messages`, and the turn that it asks for."""

from collections.abc import Mapping, Sequence
from typing import Any

import deepseek_recipe as recipe
from pydantic import BaseModel, ConfigDict, Field

from shoal.engine.sampling_options import SamplingOptions
from shoal.serve.adapted import Wanted, as_object, check_counts, conversion_options, conversion_problem, make_turn
from shoal.serve.body import checked
from shoal.serve.errors import ApiError
from shoal.serve.sampling import SamplingFields
from shoal.serve.served import Served
from shoal.serve.stream import Turn
from shoal.serve.structured import content_shape
from shoal.serve.thinking import Thinking, read_thinking
from shoal.text.chat import Effort

# Thinking budgets, in tokens, below which an effort is the one that spends about as much.
_BUDGETS: tuple[tuple[int, Effort], ...] = ((4096, "low"), (32_000, "high"))


class ToolChoice(BaseModel):
    """Which tools may, or have to, be called."""

    model_config = ConfigDict(extra="allow")

    type: str = "auto"
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class CountBody(BaseModel):
    """Anthropic's fields of a conversation. Others, `cache_control` among them, are ignored."""

    model_config = ConfigDict(extra="allow")

    model: str = Field("", max_length=256)
    messages: list[dict[str, Any]] = Field(min_length=1)
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: ToolChoice | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None


class MessagesBody(CountBody):
    """Anthropic's fields, and `seed`. `thinking` is on unless it is `disabled`; a budget becomes an effort."""

    max_tokens: int = Field(ge=1)
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    seed: int | None = None


def messages_turn(served: Served, body: CountBody) -> Turn:
    """What `body` asks for. Raises `ApiError` naming the field that is wrong."""
    limits = served.options.limits
    counts = (("messages", body.messages, limits.messages), ("tools", body.tools, limits.tools))
    check_counts(limits, counts, {"tools": body.tools, "output_config": body.output_config})
    config = body.output_config or {}
    wanted_format = config.get("format", body.output_format)
    if wanted_format is not None and not isinstance(wanted_format, Mapping):
        raise ApiError(400, "`output_config.format` is no object, expected one", param="output_config.format")
    thinking = _thinking(body, config)
    choice = body.tool_choice or ToolChoice()
    _check_choice(choice, body.tools or ())
    wanted = Wanted(
        _sampling(body),
        thinking,
        body.stop_sequences or () if isinstance(body, MessagesBody) else (),
        content_shape(wanted_format, "output_config.format"),
        not choice.disable_parallel_tool_use,
        choice.type in ("any", "tool"),
    )
    strict = {str(tool.get("name")): bool(tool.get("strict")) for tool in body.tools or ()}
    continues = body.messages[-1].get("role") == "assistant"
    return make_turn(served, _convert(body, thinking), wanted, strict, continues=continues)


def _check_choice(choice: ToolChoice, tools: Sequence[Mapping[str, Any]]) -> None:
    names = [tool.get("name") for tool in tools]
    if choice.type not in ("auto", "any", "none", "tool"):
        wanted = "`auto`, `any`, `none` or `tool`"
        raise ApiError(400, f"`tool_choice.type` is `{choice.type}`, expected {wanted}"[:300], param="tool_choice.type")
    if choice.type == "any" and not tools:
        raise ApiError(400, "`tool_choice` is `any`, expected `tools` with it", param="tool_choice")
    if choice.type == "tool" and choice.name not in names:
        message = f"`tool_choice.name` is `{choice.name}`, expected one of `tools`"
        raise ApiError(400, message[:300], param="tool_choice.name")


def _convert(body: CountBody, thinking: Thinking) -> recipe.Conversation:
    given = body.model_dump(exclude_none=True) | {"max_tokens": 1, "model": body.model or "shoal"}
    for name in ("temperature", "top_p", "top_k", "seed", "stop_sequences", "output_format", "output_config"):
        given.pop(name, None)
    given["messages"] = [_with_documents(message, index) for index, message in enumerate(body.messages)]
    given["tools"] = [_with_type(tool) for tool in given.get("tools", ())]
    given["thinking"] = {"type": "enabled", "budget_tokens": 1024} if thinking.is_on else {"type": "disabled"}
    if isinstance(thinking.effort, str):
        given["output_config"] = {"effort": thinking.effort}
    try:
        return recipe.MessagesRequest(given).convert(conversion_options(given["model"])).conversation
    except (ValueError, recipe.ConversionError) as problem:
        raise conversion_problem(problem) from None


def _with_type(tool: dict[str, Any]) -> dict[str, Any]:
    return tool | {"input_schema": as_object(tool["input_schema"])} if "input_schema" in tool else tool


def _with_documents(message: dict[str, Any], index: int) -> dict[str, Any]:
    """A document that is plain text is text; deepseek-recipe would leave all of them out."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    parts = []
    for place, part in enumerate(content):
        if isinstance(part, dict) and part.get("type") == "document":
            source = part.get("source")
            text = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
            if not isinstance(text, str):
                where = f"messages[{index}].content[{place}]"
                raise ApiError(400, f"`{where}` is a document that is no plain text, expected text", param=where)
            title = part.get("title")
            part = {"type": "text", "text": f"{title}\n\n{text}" if isinstance(title, str) else text}
        parts.append(part)
    return message | {"content": parts}


def _thinking(body: CountBody, config: Mapping[str, Any]) -> Thinking:
    """From `thinking` and `output_config.effort`; of its budget where no effort is given.

    A call that has to come begins at once, which leaves no room for a thought.
    """
    given = read_thinking(config.get("effort"), body.thinking, None, field="output_config.effort")
    if body.tool_choice is not None and body.tool_choice.type in ("any", "tool"):
        return Thinking(is_on=False)
    budget = (body.thinking or {}).get("budget_tokens")
    if given.effort is not None or not given.is_on or not isinstance(budget, int):
        return given
    return Thinking(True, next((name for most, name in _BUDGETS if budget < most), "max"))


def _sampling(body: CountBody) -> SamplingOptions:
    if not isinstance(body, MessagesBody):
        return SamplingFields.model_validate({"seed": 0}).options(1)
    given = {name: getattr(body, name) for name in ("temperature", "top_p", "top_k", "seed")}
    given["stop"] = body.stop_sequences
    return checked(SamplingFields, given).options(body.max_tokens)
