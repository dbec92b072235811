"""Chat Completions messages to prompt ids: what a message may be, and what is said of one that is none."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from shoal.errors import PromptError
from shoal.text.rendering import Rendering, encode
from shoal.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import deepseek_recipe as recipe

Message = Mapping[str, Any]
ToolChoice = Literal["auto", "none", "required"]
Effort = Literal["low", "high", "xhigh", "max"]

_ROLES = ("system", "developer", "user", "assistant", "tool", "latest_reminder")


@dataclass(frozen=True)
class ChatOptions:
    """How a conversation is rendered; `tools` are Chat Completions tools, `response_schema` a JSON Schema.

    `effort`, a name or 1 to 100, counts in thinking mode only; None is the model's default, high.
    """

    thinking: bool = False
    effort: Effort | int | None = None
    tools: Sequence[Message] = ()
    tool_choice: ToolChoice = "auto"
    json_object: bool = False
    response_schema: Mapping[str, Any] | None = None


CHAT = ChatOptions()


def render_chat(tokenizer: Tokenizer, messages: Sequence[Message], options: ChatOptions = CHAT) -> list[int]:
    """The prompt ids of `messages`, BOS first and once, ending where the assistant begins.

    A message is a Chat Completions one: `role`, `content` (a string or text parts), for an assistant also
    `reasoning_content`, `tool_calls` and `prefix` (continue it), for a tool `tool_call_id`.
    Raises `PromptError` naming the message that cannot be rendered.
    """
    return list(encode(tokenizer, render(messages, options)).ids)


def render_text(messages: Sequence[Message], options: ChatOptions = CHAT) -> str:
    """The prompt that `render_chat` encodes, as text."""
    return render(messages, options).text


def build_conversation(messages: Sequence[Message], options: ChatOptions = CHAT) -> "recipe.Conversation":
    """What deepseek-recipe renders. Raises `PromptError` naming the message or the tool that is not one."""
    import deepseek_recipe as recipe

    if not messages:
        raise PromptError("the conversation has no messages, expected at least one")
    _check_effort(options.effort)
    try:
        return recipe.Conversation(
            [_message(message, f"messages[{index}]") for index, message in enumerate(messages)],
            thinking_mode=options.thinking,
            tools=[_tool(tool, f"tools[{index}]") for index, tool in enumerate(options.tools)],
            tool_choice=options.tool_choice,
            # A number is written over that of a name when all is rendered.
            reasoning_effort="high" if isinstance(options.effort, int) else options.effort,
            response_format="json_object" if options.json_object else "text",
            response_schema=options.response_schema,
        )
    except ValueError as error:
        raise PromptError(f"the conversation cannot be rendered: {error}") from None


def render(messages: Sequence[Message], options: ChatOptions = CHAT) -> Rendering:
    """The prompt that `render_chat` encodes, before it is."""
    effort = options.effort if isinstance(options.effort, int) else None
    return Rendering.of(build_conversation(messages, options), effort)


def _check_effort(effort: object) -> None:
    is_number = isinstance(effort, int) and not isinstance(effort, bool) and 1 <= effort <= 100
    if effort is not None and effort not in get_args(Effort) and not is_number:
        names = ", ".join(f"`{name}`" for name in get_args(Effort))
        raise PromptError(f"the effort is `{effort!r}`"[:100] + f", expected {names} or a number from 1 to 100")


def _message(message: Message, where: str) -> "recipe.Message":
    import deepseek_recipe as recipe

    role = message.get("role")
    content = _content(message.get("content"), where)
    match role:
        # The released encoder knows no developer; the field renders one as a system message.
        case "system" | "developer":
            return recipe.SystemMessage(content)
        case "user":
            return recipe.UserMessage(content)
        case "latest_reminder":
            return recipe.LatestReminderMessage(content)
        case "tool":
            return recipe.ToolMessage(content, _optional_text(message, "tool_call_id", where))
        case "assistant":
            reasoning = _optional_text(message, "reasoning_content", where)
            calls = _tool_calls(message.get("tool_calls"), where)
            return recipe.AssistantMessage(content, reasoning, calls, bool(message.get("prefix", False)))
    raise PromptError(f"`{where}.role` is `{role}`, expected one of {', '.join(f'`{name}`' for name in _ROLES)}")


def _content(content: object, where: str) -> str:
    """A message's text; parts are joined by a blank line, as the released encoder does."""
    if content is None:
        return ""
    if isinstance(content, Sequence) and not isinstance(content, str):
        content = "\n\n".join(_part(part, f"{where}.content[{index}]") for index, part in enumerate(content))
    if not isinstance(content, str):
        raise PromptError(f"`{where}.content` is `{type(content).__name__}`, expected text or a list of parts")
    return content


def _part(part: object, where: str) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    if isinstance(part, Mapping) and kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    raise PromptError(f"`{where}` is a `{kind}` part, expected a `text` part with a `text` string")


def _optional_text(message: Message, key: str, where: str) -> str | None:
    value = message.get(key)
    if value is not None and not isinstance(value, str):
        raise PromptError(f"`{where}.{key}` is `{type(value).__name__}`, expected text")
    return value


def _tool_calls(calls: object, where: str) -> "list[recipe.ToolCall] | None":
    import deepseek_recipe as recipe

    if calls is None:
        return None
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise PromptError(f"`{where}.tool_calls` is `{type(calls).__name__}`, expected a list")
    found = []
    for index, call in enumerate(calls):
        place = f"{where}.tool_calls[{index}]"
        function = _function(call, place)
        text = _arguments(function.get("arguments", "{}"))
        found.append(recipe.ToolCall(str(call.get("id", "")), _name(function, place), text))
    return found


def _arguments(given: object) -> str:
    """JSON that may have been made a string of once more than it should, as the released encoder reads it."""
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    try:
        inner = json.loads(text)
        return inner if isinstance(inner, str) and isinstance(json.loads(inner), dict) else text
    except (ValueError, RecursionError):
        return text


def _tool(tool: object, where: str) -> "recipe.ToolDefinition":
    import deepseek_recipe as recipe

    function = _function(tool, where)
    description = _optional_text(function, "description", where)
    strict = function.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise PromptError(f"`{where}.strict` is `{type(strict).__name__}`, expected true or false")
    return recipe.ToolDefinition(_name(function, where), description, function.get("parameters"), strict)


def _function(outer: object, where: str) -> Message:
    """The `function` object of a tool or a call, or the object itself where it is written flat."""
    function = outer.get("function", outer) if isinstance(outer, Mapping) else outer
    if not isinstance(function, Mapping):
        raise PromptError(f"`{where}` is `{type(function).__name__}`, expected an object with a `function`")
    return function


def _name(function: Message, where: str) -> str:
    name = function.get("name")
    if not isinstance(name, str):
        raise PromptError(f"`{where}` has no `name`, expected the function's name")
    return name
