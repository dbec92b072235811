"""A conversation to prompt ids: deepseek-recipe renders, the tokenizer encodes segment by segment.

Only what the renderer itself wrote becomes a marker; everything between is plain text (spec, prompt.md §1),
so no message can forge the structure of a prompt. BOS comes from the rendering, once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from shoal.errors import PromptError
from shoal.text.tokenizer import EOS, IMAGE, Tokenizer
from shoal.text.turns import Prefix, Span, Turns

if TYPE_CHECKING:
    import deepseek_recipe as recipe

ASSISTANT, USER = "<｜Assistant｜>", "<｜User｜>"
REMINDER, REMINDER_ROLE = "<｜latest_reminder｜>", "latest_reminder"
# What the renderer writes for effort `high`.
_EFFORT, _HIGH = "Reasoning Effort: ", "75"


@dataclass(frozen=True)
class Rendering:
    """A prompt as text, and the half-open ranges of it that are markers."""

    text: str
    markers: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, conversation: "recipe.Conversation", effort: int | None = None) -> Self:
        """`effort` stands in place of what `conversation`, which must have effort `high`, would say.

        Raises `PromptError` where a message holds an image, or the text of its marker.
        """
        import deepseek_recipe as recipe

        for index, message in enumerate(conversation.messages):
            _refuse_images(message, f"messages[{index}]")
        # The checkpoint spells its image marker otherwise than recipe does by default.
        encoding = recipe.DeepseekV41Encoding().with_special_tokens(recipe.SpecialTokens(image=IMAGE))
        rendered = encoding.render_conversation(conversation)
        whole = cls(rendered.prompt, rendered.special_ranges)
        if conversation.messages and conversation.messages[-1].role == REMINDER_ROLE:
            whole = whole._with_reminders_last()
        return whole if effort is None or not conversation.thinking_mode else whole._with_effort(effort)

    def _with_effort(self, effort: int) -> Self:
        start = self.text.index(_EFFORT) + len(_EFFORT)
        assert self.text.startswith(_HIGH, start), self.text[: start + 8]
        text = f"{self.text[:start]}{effort}{self.text[start + len(_HIGH) :]}"
        moved = len(text) - len(self.text)
        markers = [(a + moved, b + moved) if a > start else (a, b) for a, b in self.markers]
        return type(self)(text, markers)

    def _with_reminders_last(self) -> Self:
        """Reminders at the end stand behind where the assistant begins, as the released encoder has them.

        deepseek-recipe puts them before it.
        """
        spellings = [self.text[start:end] for start, end in self.markers]
        count = next(n for n, spelling in enumerate(reversed(spellings[:-2])) if spelling != REMINDER)
        # Where no answer is due before them, there is no beginning to move.
        if not count or spellings[-2] != ASSISTANT or spellings[-3 - count] == spellings[0]:
            return self
        first, header = self.markers[-2 - count][0], self.markers[-2][0]
        length = len(self.text) - header
        text = self.text[:first] + self.text[header:] + self.text[first:header]
        back = [(a - header + first, b - header + first) for a, b in self.markers[-2:]]
        ahead = [(a + length, b + length) for a, b in self.markers[-2 - count : -2]]
        return type(self)(text, [*self.markers[: -2 - count], *back, *ahead])

    def last_turn(self) -> Span | None:
        """The assistant's last part that has an end."""
        spans = self.assistant_parts()
        return spans[max(spans)][0] if spans else None

    def assistant_parts(self) -> dict[int, tuple[Span, int]]:
        """Each ended part of an assistant, and the number of the marker that ends it, by that of its first."""
        spellings = [self.text[start:end] for start, end in self.markers]
        turns, first = {}, None
        for number, spelling in enumerate(spellings):
            if spelling == ASSISTANT:
                # The marker behind it says whether reasoning follows.
                first = number + 2
            elif spelling == EOS and first is not None and number >= first:
                turns[first] = (self._span(first, number), number)
                first = None
        return turns

    def _span(self, first: int, end: int) -> Span:
        start, stop = self.markers[first - 1][1], self.markers[end][0]
        inside = tuple((a - start, b - start) for a, b in self.markers[first:end])
        return Span(self.text[start:stop], inside)


@dataclass(frozen=True)
class PromptIds:
    """A prompt for the model, and `system_end`, how many first ids of it stand before anything a user said."""

    ids: tuple[int, ...]
    system_end: int


def encode(tokenizer: Tokenizer, rendering: Rendering, turns: Turns | None = None) -> PromptIds:
    """The ids of `rendering`; parts of an assistant that `turns` knows get the ids that it chose.

    Raises `PromptError` where a text holds half a surrogate pair.
    """
    known = rendering.assistant_parts() if turns is not None else {}
    ids: list[int] = []
    prefix, hashed = Prefix(), 0
    position, number, system_end = 0, 0, None
    text, markers = rendering.text, rendering.markers
    while number < len(markers):
        if turns is not None and number in known:
            span, end = known[number]
            prefix.extend(ids[hashed:])
            hashed = len(ids)
            given = turns.recall(prefix, span)
            if given is not None:
                ids += given
                number, position = end, markers[end][0]
                continue
        start, stop = markers[number]
        ids += tokenizer.encode(text[position:start]) if position < start else []
        if text[start:stop] == USER and system_end is None:
            system_end = len(ids)
        ids.append(tokenizer.marker_id(text[start:stop]))
        number, position = number + 1, stop
    ids += tokenizer.encode(text[position:])
    return PromptIds(tuple(ids), 0 if system_end is None else system_end)


def _refuse_images(message: "recipe.Message", where: str) -> None:
    if message.image_sources:
        raise PromptError(
            f"`{where}` holds an image, expected text", hint="this server reads text only: leave the image out."
        )
    # The released encoder rejects its own marker in what people say; recipe would take it for plain text.
    for part, text in (("content", message.content), ("reasoning_content", message.reasoning_content or "")):
        if IMAGE in text:
            raise PromptError(f"`{where}.{part}` contains the image marker `{IMAGE}`, expected text without it")
