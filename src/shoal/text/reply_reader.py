"""A reply's text to the chunks of a protocol, while it arrives: our corrections, then deepseek-recipe's parser."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from shoal.text.calls_markup import CallsMarkup
from shoal.text.tokenizer import IMAGE

if TYPE_CHECKING:
    import deepseek_recipe as recipe

    Chunk: TypeAlias = recipe.ChatCompletionChunk | recipe.ResponsesStreamEvent | recipe.MessagesStreamEvent
    Generator: TypeAlias = (
        recipe.ChatCompletionChunkGenerator | recipe.ResponsesChunkGenerator | recipe.MessagesChunkGenerator
    )


class ReplyReader:
    """Of one reply. What is pushed between `start` and `finish` is its text in any pieces; the chunks are the same.

    `whole` gives a tool call out when it is closed, which a reply that is not streamed should, and `single` reads no
    second one (`CallsMarkup`).
    """

    def __init__(
        self,
        generator: "Generator",
        options: "recipe.ParsingOptions",
        *,
        whole: bool = False,
        single: bool = False,
    ) -> None:
        import deepseek_recipe as recipe

        options = reading(options)
        reads_calls = options.parse_tool_calls
        inside = options.starts_in_tool_calls
        self._markup = CallsMarkup(inside=inside, whole=whole, single=single) if reads_calls else None
        self._processor = recipe.StreamProcessor(generator, options)

    @property
    def is_over(self) -> bool:
        """Whether nothing that follows can count: a stop string came, or the block of calls is closed."""
        return self._processor.finished or (self._markup is not None and self._markup.is_over)

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string came."""
        return self._processor.finished

    def start(self, num_prompt: int, cached: int) -> Sequence["Chunk"]:
        """The first chunks; the counts are of the prompt's tokens."""
        import deepseek_recipe as recipe

        usage = recipe.PromptUsage(prompt_tokens=num_prompt, prompt_cache_hit_tokens=cached)
        return self._processor.push(recipe.InferenceChunk.ready(prompt_usage=usage))

    def push(self, text: str, num_tokens: int = 1) -> Sequence["Chunk"]:
        """`text`, which may be empty, is what `num_tokens` gave."""
        import deepseek_recipe as recipe

        if self._processor.finished:
            return ()
        text = text if self._markup is None else self._markup.push(text)
        return self._processor.push(recipe.InferenceChunk.text(text, num_tokens))

    def finish(self, *, is_cut: bool) -> Sequence["Chunk"]:
        """The last chunks: the reply ended by itself, or by its length."""
        import deepseek_recipe as recipe

        chunks = list(self.push("" if self._markup is None else self._markup.flush(), 0))
        if not self._processor.finished:
            reason = recipe.InferenceFinishReason.Length if is_cut else recipe.InferenceFinishReason.Stop
            chunks += self._processor.push(recipe.InferenceChunk.finish(reason))
        return [*chunks, *self._processor.finish()]


def reading(options: "recipe.ParsingOptions") -> "recipe.ParsingOptions":
    """`options` for this checkpoint's markers; JSON is enforced while it is written, so none is looked for."""
    import deepseek_recipe as recipe

    return recipe.ParsingOptions(
        parse_tool_calls=options.parse_tool_calls,
        starts_in_tool_calls=options.starts_in_tool_calls,
        thinking_initial_stage=options.thinking_initial_stage,
        stop_sequences=options.stop_sequences,
        special_tokens=recipe.SpecialTokens(image=IMAGE),
    )
