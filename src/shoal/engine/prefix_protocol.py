"""What the engine asks of a prefix cache: sequences that were computed once, to go on from.

Called from the engine's thread only. A sequence that is found continues with the bits of one computed anew.
"""

from collections.abc import Sequence
from typing import Protocol

from shoal.model.cache import SequenceCache

SMALLEST_SHARE = 32
"""Tokens that another prompt must save before a request waits for it to be read."""


class PrefixCache(Protocol):
    """A tree of token ids with sequences at some lengths."""

    def worth_keeping(self, num_tokens: int, marks: Sequence[int]) -> Sequence[int]:
        """Lengths, ascending, at which the sequence of a prompt of `num_tokens` shall be kept.

        `marks` are lengths that the caller thinks worth it. Chunks of the prompt are cut there.
        """
        ...

    def find(self, ids: Sequence[int]) -> tuple[SequenceCache, int] | None:
        """The caller's own sequence of the longest proper prefix of `ids` that is kept, and its length."""
        ...

    def keep(self, ids: Sequence[int], cache: SequenceCache, lasting: bool = True) -> None:
        """Remember a sequence that has seen exactly `ids`; `cache` stays the caller's and goes on.

        What is not `lasting` need not survive a restart. Called at the lengths worth keeping and at the end of an
        answer. Raises nothing: what does not fit is not kept.
        """
        ...

    def evict(self) -> bool:
        """Let the sequence go that is worth least, because there is no page for one that runs; False: none can."""
        ...
