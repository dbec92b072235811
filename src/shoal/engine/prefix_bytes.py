"""Bytes of many sequences that share pages, each page counted once."""

from collections import Counter

from shoal.model.cache import SequenceCache


class SharedBytes:
    """What the sequences added hold together. None of them may grow or be cut until it is removed."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._pages: Counter[int] = Counter()

    def cost(self, cache: SequenceCache) -> int:
        """Bytes that this sequence would add."""
        return cache.nbytes

    def add(self, cache: SequenceCache) -> None:
        """Count it too."""
        self.nbytes += self.cost(cache)

    def remove(self, cache: SequenceCache) -> None:
        """Count it no more."""
        self.nbytes -= self.cost(cache)
