"""What a corpus is made of: documents of raw text or of one chat, with what is worth learning of them.

Hardest rule: `learn` is the weight of predicting a piece of text, never of reading it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.text.chat import ChatOptions

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Text:
    """A run of raw text; the texts of a document are joined without anything between them."""

    text: str
    learn: float = 1.0


@dataclass(frozen=True)
class Chat:
    """A whole conversation that ends with an assistant's message; its assistant turns are what is learned.

    `bare` leaves the long constant text about tools out and keeps their schemas: more calls for the same tokens.
    """

    messages: tuple[Message, ...]
    options: ChatOptions = field(default_factory=ChatOptions)
    bare: bool = False


Part = Text | Chat


@dataclass(frozen=True)
class Document:
    """One training example: texts, or a single chat. BOS before it and EOS after it belong to the encoding."""

    kind: str
    parts: tuple[Part, ...]

    def text(self) -> str:
        """The raw text of it, and the messages' texts of a chat a line each; for searching, not for training."""
        return "".join(part.text if isinstance(part, Text) else _transcript(part) for part in self.parts)


def _transcript(chat: Chat) -> str:
    fields = ("reasoning_content", "content", "tool_calls")
    return "".join(f"{message[name]}\n" for message in chat.messages for name in fields if message.get(name))


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str, reasoning: str | None = None) -> Message:
    message = {"role": "assistant", "content": text}
    return message if reasoning is None else message | {"reasoning_content": reasoning}
