"""A document to ids and to the weight of predicting each of them."""

from dataclasses import dataclass
from itertools import pairwise

from shoal.text.chat import ChatOptions, render_chat
from shoal.text.tokenizer import Tokenizer
from training.corpus.document import Chat, Document, Text, user

# Prompts of a chat: enough to stay fluent in them, too little to spend the model on them.
PROMPT = 0.1


@dataclass(frozen=True)
class Encoded:
    """`learn[i]` is the weight of predicting `ids[i]`; BOS comes first with weight 0, EOS last with weight 1."""

    ids: list[int]
    learn: list[float]


class Encoder:
    """Encodes documents as the engine encodes prompts: `Text` as a raw completion, `Chat` as `render_chat`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._nbytes = [len(tokenizer.token_bytes(token_id)) for token_id in range(tokenizer.vocab_size)]
        self._assistant_id = tokenizer.marker_id("<｜Assistant｜>")
        self._end_think_id = tokenizer.marker_id("</think>")
        self._tools_text = self._find_tools_text()

    def encode(self, document: Document) -> Encoded:
        first = document.parts[0]
        if isinstance(first, Chat):
            assert len(document.parts) == 1, document.kind
            return self._chat(first)
        return self._texts([part for part in document.parts if isinstance(part, Text)])

    def _find_tools_text(self) -> list[int]:
        """The ids that every prompt with tools opens with, up to the first schema: BOS, System, constant text."""
        first, second = (
            render_chat(self.tokenizer, [user("")], ChatOptions(tools=[{"function": {"name": name}}])) for name in "ab"
        )
        same = next(index for index, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
        return first[: same - len(self.tokenizer.encode('{"name": "'))]

    def _texts(self, texts: list[Text]) -> Encoded:
        """The whole text is encoded at once; a token weighs what the text that holds its last byte weighs."""
        ids = self.tokenizer.encode("".join(text.text for text in texts))
        learn: list[float] = []
        position, index, end = 0, 0, len(texts[0].text.encode())
        for token_id in ids:
            position += self._nbytes[token_id]
            while position > end:
                index += 1
                end += len(texts[index].text.encode())
            learn.append(texts[index].learn)
        assert position == sum(len(text.text.encode()) for text in texts), texts
        return Encoded([self.tokenizer.bos_id, *ids, self.tokenizer.eos_id], [0.0, *learn, 1.0])

    def _chat(self, chat: Chat) -> Encoded:
        last = chat.messages[-1]
        assert last["role"] == "assistant" and not last.get("tool_calls"), last
        ids = render_chat(self.tokenizer, chat.messages[:-1], chat.options)
        if chat.bare:
            assert ids[: len(self._tools_text)] == self._tools_text, chat
            ids = ids[:2] + ids[len(self._tools_text) :]
        if chat.options.thinking:
            ids += [*self.tokenizer.encode(last.get("reasoning_content") or ""), self._end_think_id]
        ids += [*self.tokenizer.encode(last["content"]), self.tokenizer.eos_id]
        return Encoded(ids, self._chat_weights(ids))

    def _chat_weights(self, ids: list[int]) -> list[float]:
        """1 from behind each assistant header to its EOS, 0 on what opens the prompt and the header's mode."""
        learn = [0.0]
        speaking = False
        for before, token_id in pairwise(ids):
            header = before == self._assistant_id
            learn.append(0.0 if header else 1.0 if speaking else PROMPT)
            speaking = header or (speaking and token_id != self.tokenizer.eos_id)
        return learn
