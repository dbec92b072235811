"""Things drawn at random, none again before all others were drawn: what was used just before is in some cache."""

import random
from collections.abc import Sequence
from typing import Generic, TypeVar

Card = TypeVar("Card")


class Deck(Generic[Card]):
    """All of `cards` in random order, again and again."""

    def __init__(self, cards: Sequence[Card], seed: int = 0) -> None:
        assert cards, "nothing to draw from"
        self._cards, self._random = list(cards), random.Random(seed)
        self._waiting = list[Card]()

    def draw(self, count: int) -> list[Card]:
        """`count` different ones."""
        assert count <= len(self._cards), (count, len(self._cards))
        if len(self._waiting) < count:
            left = set(self._waiting)
            self._waiting += [card for card in self._random.sample(self._cards, len(self._cards)) if card not in left]
        drawn, self._waiting = self._waiting[:count], self._waiting[count:]
        return drawn
