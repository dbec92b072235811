"""The body of `/v1/chat/completions`, and the turn that it asks for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import deepseek_recipe as recipe
from pydantic import Field

from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import PromptError
from shoal.serve.errors import ApiError, as_api_error
from shoal.serve.options import Limits
from shoal.serve.sampling import SamplingFields, StreamOptions, top_logprobs
from shoal.serve.served import Served
from shoal.serve.stream import Turn, render
from shoal.serve.structured import calls_shape, compile_shape, content_shape
from shoal.serve.thinking import Thinking, read_thinking
from shoal.text.answer_shape import ContentShape
from shoal.text.chat import ChatOptions, build_conversation

MOST_NAME_CHARACTERS = 256
# deepseek-recipe's, where a request names no number.
_DEFAULT_TOKENS, _DEFAULT_THINKING_TOKENS, _DEFAULT_MAX_EFFORT_TOKENS = 8192, 65536, 131072


class ChatBody(SamplingFields):
    """OpenAI's fields, those of DeepSeek's API, and some that other servers take. Others are ignored."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    n: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: int | str | None = None
    thinking: dict[str, Any] | bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    continue_final_message: bool | None = None
    functions: Any = None
    function_call: Any = None


@dataclass(frozen=True)
class ToolUse:
    """The tools on offer, and whether one must be called."""

    tools: Sequence[Mapping[str, Any]] = ()
    choice: Literal["auto", "none", "required"] = "auto"


def chat_turn(served: Served, body: ChatBody) -> Turn:
    """What `body` asks for. Raises `ApiError` naming the field that is wrong."""
    _check_limits(body, served.options.limits)
    tool_use, thinking = read_tools(body.tools, body.tool_choice), _thinking(body)
    if tool_use.choice == "required":
        # The call begins at once: there is no room for reasoning before it.
        thinking = Thinking(is_on=False)
    single = body.parallel_tool_calls is False
    content = content_shape(body.response_format, "response_format")
    calls = calls_shape(tool_use.tools, tool_use.choice, is_parallel=not single)
    messages = _messages(body, tool_use)
    options = ChatOptions(thinking.is_on, thinking.effort, tool_use.tools, tool_use.choice, *_told_format(content))
    try:
        conversation = build_conversation(messages, options)
    except PromptError as problem:
        raise as_api_error(problem) from None
    effort = thinking.effort if isinstance(thinking.effort, int) else None
    prompt = render(served, conversation, effort)
    parsing = recipe.ParsingOptions(
        parse_tool_calls=bool(tool_use.tools),
        starts_in_tool_calls=tool_use.choice == "required",
        thinking_initial_stage=initial_stage(conversation),
        stop_sequences=body.stop or (),
    )
    thinks = parsing.thinking_initial_stage is not None and parsing.thinking_initial_stage.starts_in_reasoning()
    constraint = compile_shape(served, thinking=thinks, content=content, calls=calls)
    return Turn(conversation, effort, prompt, _sampling(body, thinking), parsing, single, constraint)


def initial_stage(conversation: recipe.Conversation) -> recipe.ThinkingInitialStage | None:
    """Where the text of the reply starts: a prefix that is continued may have got further than a new turn has."""
    if not conversation.thinking_mode:
        return None
    last = conversation.messages[-1]
    if last.prefix and last.content:
        return recipe.ThinkingInitialStage.ContentContinuation
    if last.prefix and last.reasoning_content:
        return recipe.ThinkingInitialStage.ReasoningContinuation
    return recipe.ThinkingInitialStage.ReasoningStart


def read_tools(tools: Sequence[Mapping[str, Any]] | None, choice: str | Mapping[str, Any] | None) -> ToolUse:
    """The tools that are left by `choice`: all, none, or the one that is named. Raises `ApiError`."""
    tools = tools or ()
    _check_names(tools)
    if choice is None or choice == "auto":
        return ToolUse(tools)
    if choice == "none":
        return ToolUse(choice="none")
    if choice == "required":
        if not tools:
            raise ApiError(400, "`tool_choice` is `required`, expected `tools` with it", param="tool_choice")
        return ToolUse(tools, "required")
    wanted = _chosen(choice)
    left = [tool for tool in tools if _tool_name(tool) == wanted]
    if wanted is None or not left:
        message = f"`tool_choice` is {json.dumps(choice, ensure_ascii=False)[:200]}, expected `auto`, `none`, "
        message += "`required`, or a function of `tools` by its name"
        raise ApiError(400, message, param="tool_choice", code="invalid_value")
    return ToolUse(left, "required")


def _chosen(choice: str | Mapping[str, Any]) -> object:
    if isinstance(choice, str):
        return None
    function = choice.get("function")
    return function.get("name") if isinstance(function, Mapping) else choice.get("name")


def _tool_name(tool: Mapping[str, Any]) -> object:
    function = tool.get("function", tool)
    return function.get("name") if isinstance(function, Mapping) else None


def _check_names(tools: Sequence[Mapping[str, Any]]) -> None:
    seen = set()
    for index, tool in enumerate(tools):
        name, where = _tool_name(tool), f"tools[{index}].function.name"
        if not isinstance(name, str):
            raise ApiError(400, f"`tools[{index}]` is no function with a name, expected one", param=f"tools[{index}]")
        if not 0 < len(name) <= MOST_NAME_CHARACTERS or any(each in '"<>' or each < " " for each in name):
            message = f"`{where}` has {len(name)} characters, expected 1 to {MOST_NAME_CHARACTERS}, none of them"
            raise ApiError(400, f"{message} a quote, an angle bracket or a control character", param=where)
        if name in seen:
            raise ApiError(400, f"`{where}` is `{name}` again, expected each name once", param=where)
        seen.add(name)


def _check_limits(body: ChatBody, limits: Limits) -> None:
    counts = (("messages", len(body.messages), limits.messages), ("tools", len(body.tools or ()), limits.tools))
    for name, found, most in counts:
        if found > most:
            raise ApiError(400, f"`{name}` has {found:,} entries, expected at most {most:,}", param=name)
    for name, value in (("tools", body.tools), ("response_format", body.response_format)):
        nbytes = 0 if value is None else len(json.dumps(value, ensure_ascii=False))
        if nbytes > limits.schema_nbytes:
            message = f"`{name}` is {nbytes:,} characters of JSON, expected at most {limits.schema_nbytes:,}"
            raise ApiError(400, message, param=name, code="schema_too_large")
    if (body.n or 1) > limits.choices:
        raise ApiError(400, f"`n` is {body.n}, expected 1 to {limits.choices}", param="n")
    for name in ("functions", "function_call"):
        if getattr(body, name) is not None:
            raise ApiError(400, f"`{name}` is the older form, expected `tools` and `tool_choice`", param=name)


def _told_format(content: ContentShape | None) -> tuple[bool, Any]:
    """What the prompt says of the format: that it is a JSON object, or the schema."""
    if content is None or content.kind != "json":
        return False, None
    is_object = content.where == "response_format"
    return is_object, None if is_object else content.rule


def _thinking(body: ChatBody) -> Thinking:
    return read_thinking(body.reasoning_effort, body.thinking, body.chat_template_kwargs)


def _messages(body: ChatBody, tool_use: ToolUse) -> list[dict[str, Any]]:
    messages = list(body.messages)
    if body.continue_final_message and messages[-1].get("role") == "assistant":
        messages[-1] = messages[-1] | {"prefix": True}
    last = messages[-1]
    if last.get("role") == "assistant" and last.get("prefix") and tool_use.choice == "required":
        raise ApiError(400, "`tool_choice` forces a call, expected no `prefix` message with it", param="tool_choice")
    return messages


def _sampling(body: ChatBody, thinking: Thinking) -> SamplingOptions:
    if body.top_logprobs is not None and not body.logprobs:
        raise ApiError(400, "`top_logprobs` is given, expected `logprobs` true with it", param="logprobs")
    logprobs = top_logprobs(body.top_logprobs) if body.logprobs else None
    default = _DEFAULT_TOKENS
    if thinking.is_on:
        default = _DEFAULT_MAX_EFFORT_TOKENS if thinking.effort == "max" else _DEFAULT_THINKING_TOKENS
    return body.options(body.max_completion_tokens or body.max_tokens or default, logprobs)
