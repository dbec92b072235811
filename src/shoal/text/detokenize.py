"""Ids to text while they arrive: a piece never ends inside a character.

A token may hold part of a UTF-8 character, so text is emitted when its bytes are complete, and U+FFFD only
once no later byte could complete them. The pieces joined are exactly `Tokenizer.decode` of all ids.
"""

import codecs

from shoal.text.tokenizer import Tokenizer


class StreamDetokenizer:
    """The text of one sequence, piece by piece; at most three bytes are held back."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The text that `token_id` completes, often empty; `PromptError` for an id outside the vocabulary."""
        return self._decoder.decode(self._tokenizer.token_bytes(token_id))

    def flush(self) -> str:
        """What is left when the sequence ends: U+FFFD for an unfinished character, else nothing."""
        piece = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return piece
