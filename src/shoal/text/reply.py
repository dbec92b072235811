"""A completion's text to reasoning, content and tool calls: deepseek-recipe parses, as a server of its would.

The text does not say where it starts: what the prompt left open does (spec, prompt.md §6).
"""

import json
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from shoal.text.reply_reader import ReplyReader
from shoal.text.tokenizer import IMAGE

if TYPE_CHECKING:
    import deepseek_recipe as recipe


@dataclass(frozen=True)
class Call:
    """A tool call as it was written; `arguments` should be a JSON object, and is not where the model erred."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """What an assistant said. `reasoning` is None where there is none, or none yet."""

    content: str
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()


def parse_reply(text: str, *, thinking: bool = False, tools: bool = False, ended: bool = True) -> Reply:
    """The parts of `text`, which follows a rendered prompt in `thinking` mode or not.

    Without `tools` a calls block is content. A text that was cut (`ended` is false) keeps what it got to: reasoning
    without content, arguments without their closing brace. Nothing is refused.
    """
    import deepseek_recipe as recipe

    processor = stream_processor(thinking, tools)
    response = recipe.ChatCompletionResponse("", "", 0, 0, 0)
    finish = recipe.InferenceFinishReason.Stop if ended else recipe.InferenceFinishReason.Length
    chunk = recipe.InferenceChunk
    pushed = [processor.push(part) for part in (chunk.ready(), chunk.text(text), chunk.finish(finish))]
    for delta in chain(*pushed, processor.finish()):
        assert isinstance(delta, recipe.ChatCompletionChunk), delta
        response.accumulate(delta)
    return _reply(json.loads(response.to_json())["choices"][0]["message"])


def read_reply(text: str, options: "recipe.ParsingOptions") -> Reply:
    """The parts of a whole `text` as a server's clients get them, arguments that are JSON objects included."""
    import deepseek_recipe as recipe

    reader, response = ReplyReader(_generator(), options, whole=True), recipe.ChatCompletionResponse("", "", 0, 0, 0)
    for delta in (*reader.start(0, 0), *reader.push(text), *reader.finish(is_cut=False)):
        assert isinstance(delta, recipe.ChatCompletionChunk), delta
        response.accumulate(delta)
    return _reply(json.loads(response.to_json())["choices"][0]["message"])


def stream_processor(thinking: bool, tools: bool) -> "recipe.StreamProcessor":
    """Takes the text of one completion in pieces and gives Chat Completions chunks back."""
    import deepseek_recipe as recipe

    options = recipe.ParsingOptions(
        parse_tool_calls=tools,
        thinking_initial_stage=recipe.ThinkingInitialStage.ReasoningStart if thinking else None,
        special_tokens=recipe.SpecialTokens(image=IMAGE),
    )
    return recipe.StreamProcessor(_generator(), options)


def _generator() -> "recipe.ChatCompletionChunkGenerator":
    """It takes the shape of its answers from a request; that one asks for nothing."""
    import deepseek_recipe as recipe

    request = recipe.ConversationRequest(recipe.Conversation([]), recipe.ModelVersion.DeepseekV41Flash)
    return recipe.ChatCompletionRequest.chunk_generator(request, "", "")


def _reply(message: dict[str, Any]) -> Reply:
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    calls = tuple(Call(function["name"], function["arguments"]) for function in functions)
    return Reply(message.get("content") or "", message.get("reasoning_content"), calls)
