"""Requests of the protocols that deepseek-recipe converts, messages and responses, to turns: with our corrections.

Theirs is how a conversation is read. Ours are limits, effort by number, a call that has to come (which leaves no room
for a thought), formats and tools that are enforced, and a length that is cut to what there is and never refused.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import deepseek_recipe as recipe

from shoal.engine.sampling_options import SamplingOptions
from shoal.serve.chat_body import initial_stage
from shoal.serve.errors import ApiError
from shoal.serve.options import Limits
from shoal.serve.served import Served
from shoal.serve.stream import Turn, render
from shoal.serve.structured import calls_shape, compile_shape
from shoal.serve.thinking import Thinking
from shoal.text.answer_shape import ContentShape

_NO_BOUND = 2**31 - 1


@dataclass(frozen=True)
class Wanted:
    """What a request asks besides its conversation."""

    sampling: SamplingOptions
    thinking: Thinking
    stop: Sequence[str] = ()
    content: ContentShape | None = None
    is_parallel: bool = True
    is_demanded: bool = False
    """Whether some call has to come; deepseek-recipe takes Anthropic's `any` for `auto`."""


def conversion_options(model: str) -> recipe.ConversionOptions:
    """Any model name is ours, and any length is cut to what there is."""
    return (
        recipe.ConversionOptions()
        .with_model_versions_by_name({model: recipe.ModelVersion.DeepseekV41Flash})
        .with_messages_web_search(recipe.WebSearchBehavior.Drop)
        .with_thinking_max_tokens_upper_bound(_NO_BOUND)
        .with_non_thinking_max_tokens_upper_bound(_NO_BOUND)
    )


def conversion_problem(problem: Exception) -> ApiError:
    """What deepseek-recipe says of a request that it cannot convert."""
    message = str(problem)
    if isinstance(problem, recipe.ConversionError):
        message = _message(problem.body)
    return ApiError(400, message[:1000], code="invalid_value")


def _message(body: str) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body


def make_turn(
    served: Served, conversation: recipe.Conversation, wanted: Wanted, strict: Mapping[str, bool], *, continues: bool
) -> Turn:
    """The turn that follows `conversation`; `strict` says of tools, by name, whether they are. Raises `ApiError`.

    `continues`: the last message is the beginning of the answer.
    """
    conversation = _remade(conversation, wanted, continues)
    effort = wanted.thinking.effort if isinstance(wanted.thinking.effort, int) else None
    prompt = render(served, conversation, effort)
    choice, stage = conversation.tool_choice, initial_stage(conversation)
    parsing = recipe.ParsingOptions(
        parse_tool_calls=bool(conversation.tools) and choice != "none",
        starts_in_tool_calls=choice == "required",
        thinking_initial_stage=stage,
        stop_sequences=wanted.stop,
    )
    tools = [_as_tool(tool, strict) for tool in conversation.tools]
    calls = calls_shape(tools, choice, is_parallel=wanted.is_parallel)
    thinks = stage is not None and stage.starts_in_reasoning()
    constraint = compile_shape(served, thinking=thinks, content=wanted.content, calls=calls)
    return Turn(conversation, effort, prompt, wanted.sampling, parsing, not wanted.is_parallel, constraint)


def _as_tool(tool: recipe.ToolDefinition, strict: Mapping[str, bool]) -> dict[str, Any]:
    return {"name": tool.name, "parameters": tool.parameters, "strict": strict.get(tool.name, False)}


def _remade(conversation: recipe.Conversation, wanted: Wanted, continues: bool) -> recipe.Conversation:
    """With the schema of a format in the prompt, and the last message open where it is to be continued."""
    messages = list(conversation.messages)
    if continues and messages:
        last = messages[-1]
        messages[-1] = recipe.AssistantMessage(last.content, last.reasoning_content, last.tool_calls, prefix=True)
    content, kind = wanted.content, conversation.response_format
    is_schema = content is not None and content.kind == "json" and content.where.endswith("schema")
    return recipe.Conversation(
        messages,
        thinking_mode=conversation.thinking_mode,
        tools=conversation.tools,
        tool_choice="required" if wanted.is_demanded else conversation.tool_choice,
        reasoning_effort=conversation.reasoning_effort,
        response_format="json_object" if kind == "json_object" else "text",
        response_schema=content.rule if is_schema and content is not None else None,
    )


def as_object(schema: Any) -> Any:
    """A tool's schema with the type that it has to have, which deepseek-recipe wants to be said."""
    return schema if not isinstance(schema, Mapping) or "type" in schema else {"type": "object", **schema}


def check_counts(limits: Limits, counts: Sequence[tuple[str, object, int]], schemas: Mapping[str, object]) -> None:
    """Raises `ApiError` where a list is longer, or tools or a format larger, than may be."""
    for name, value, most in counts:
        found = len(value) if isinstance(value, list) else 0
        if found > most:
            raise ApiError(400, f"`{name}` has {found:,} entries, expected at most {most:,}", param=name)
    for name, value in schemas.items():
        nbytes = 0 if value is None else len(json.dumps(value))
        if nbytes > limits.schema_nbytes:
            message = f"`{name}` is {nbytes:,} characters of JSON, expected at most {limits.schema_nbytes:,}"
            raise ApiError(400, message, param=name, code="schema_too_large")
