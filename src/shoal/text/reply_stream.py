"""A completion's text while it comes: which of it is reasoning and which content. Tool calls stay text.

What could begin a marker is held back until it is known, so markup is never part of a piece.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from shoal.text.reply import stream_processor


@dataclass(frozen=True)
class ReplyPiece:
    """Some characters of a reply; joined by kind they are what `parse_reply` gives for the whole text."""

    kind: Literal["reasoning", "content"]
    text: str


class ReplyStream:
    """Takes one completion's text piece by piece; `thinking` says how its prompt ended."""

    def __init__(self, *, thinking: bool) -> None:
        import deepseek_recipe as recipe

        self._processor = stream_processor(thinking, tools=False)
        self._processor.push(recipe.InferenceChunk.ready())

    def push(self, text: str) -> Iterator[ReplyPiece]:
        """What is certain now."""
        import deepseek_recipe as recipe

        return _pieces(self._processor.push(recipe.InferenceChunk.text(text))) if text else iter(())

    def finish(self, *, ended: bool = True) -> Iterator[ReplyPiece]:
        """What was held back; `ended` is false where the completion was cut."""
        import deepseek_recipe as recipe

        reason = recipe.InferenceFinishReason.Stop if ended else recipe.InferenceFinishReason.Length
        last = self._processor.push(recipe.InferenceChunk.finish(reason))
        return _pieces([*last, *self._processor.finish()])


def _pieces(chunks: Iterable[object]) -> Iterator[ReplyPiece]:
    import deepseek_recipe as recipe

    for chunk in chunks:
        assert isinstance(chunk, recipe.ChatCompletionChunk), chunk
        for choice in json.loads(chunk.to_json())["choices"]:
            delta = choice["delta"]
            if text := delta.get("reasoning_content"):
                yield ReplyPiece("reasoning", text)
            if text := delta.get("content"):
                yield ReplyPiece("content", text)
