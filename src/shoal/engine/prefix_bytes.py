"""Bytes of many sequences that share pages, each page counted once."""

from collections import Counter

from shoal.model.cache import SequenceCache


class SharedBytes:
    """What the sequences added hold together. None of them may grow or be cut until it is removed."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._pages: Counter[tuple[int, int]] = Counter()

    def cost(self, cache: SequenceCache) -> int:
        """Bytes that this sequence would add."""
        new = sum(not self._pages[page] for page in _pages(cache))
        return cache.fixed_nbytes + new * cache.pool.layout.nbytes

    def add(self, cache: SequenceCache) -> None:
        """Count it too."""
        self.nbytes += self.cost(cache)
        self._pages.update(_pages(cache))

    def remove(self, cache: SequenceCache) -> None:
        """Count it no more."""
        self._pages.subtract(_pages(cache))
        # Without those that are gone.
        self._pages = +self._pages
        self.nbytes -= self.cost(cache)


def _pages(cache: SequenceCache) -> list[tuple[int, int]]:
    """By pool too: a sequence may have one of its own."""
    return [(id(cache.pool), page_id) for page_id in cache.page_ids]
