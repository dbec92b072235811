"""How much the caches of all running sequences may hold together, counted before it is used.

The scheduler takes room for whole pages of a sequence before a forward writes them, and gives it back when the
sequence's cache is let go.
"""

from dataclasses import dataclass
from typing import Protocol


class KvRoom(Protocol):
    """Room in tokens, of which a sequence takes multiples of `page_tokens`, and in sequences, which have rings too."""

    @property
    def page_tokens(self) -> int:
        """The unit that is taken."""
        ...

    @property
    def longest(self) -> int | None:
        """The most tokens that a sequence may have when it is alone; None: no limit."""
        ...

    @property
    def used_nbytes(self) -> int:
        """Bytes taken."""
        ...

    @property
    def total_nbytes(self) -> int | None:
        """Bytes that there are; None: no limit."""
        ...

    def fits(self, tokens: int, sequences: int = 0) -> bool:
        """Whether so much is left."""
        ...

    def take(self, tokens: int, sequences: int = 0) -> None:
        """Use what fits."""
        ...

    def give(self, tokens: int, sequences: int = 0) -> None:
        """Return what was taken."""
        ...


@dataclass
class ByteRoom:
    """A budget of `nbytes` (None: no limit) for sequences of `sequence_nbytes` each and pages of `page_nbytes`."""

    nbytes: int | None = None
    page_nbytes: int = 0
    sequence_nbytes: int = 0
    page_tokens: int = 1
    used_nbytes: int = 0

    @property
    def total_nbytes(self) -> int | None:
        """The budget."""
        return self.nbytes

    @property
    def longest(self) -> int | None:
        """Whole pages beside one sequence's rings."""
        if self.nbytes is None:
            return None
        return max(0, self.nbytes - self.sequence_nbytes) // self.page_nbytes * self.page_tokens

    def fits(self, tokens: int, sequences: int = 0) -> bool:
        """Whether so much is left."""
        return self.nbytes is None or self.used_nbytes + self._nbytes(tokens, sequences) <= self.nbytes

    def take(self, tokens: int, sequences: int = 0) -> None:
        """Use what fits."""
        assert self.fits(tokens, sequences), (self, tokens, sequences)
        self.used_nbytes += self._nbytes(tokens, sequences)

    def give(self, tokens: int, sequences: int = 0) -> None:
        """Return what was taken."""
        self.used_nbytes -= self._nbytes(tokens, sequences)
        assert self.used_nbytes >= 0, self

    def _nbytes(self, tokens: int, sequences: int) -> int:
        assert tokens % self.page_tokens == 0, (tokens, self.page_tokens)
        return tokens // self.page_tokens * self.page_nbytes + sequences * self.sequence_nbytes
