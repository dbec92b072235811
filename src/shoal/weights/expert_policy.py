"""Which held expert goes when a slot is wanted."""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol, runtime_checkable

from shoal.weights.expert_key import Key

HALF_LIFE = 64
"""Steps of a layer after which a visit counts half."""
# An expert whose visits count less than this was not here before.
_REMEMBERED = 0.25

Rank = tuple[bool, float]
"""Whether it came back, and its decayed visits on a scale that keeps their order: the lowest goes."""


@runtime_checkable
class ExpertPolicy(Protocol):
    """Told of every visit, it picks who goes. What is held is what was given to `hold` and not yet picked."""

    def visit(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """A step uses these experts of the layer, held or not."""
        ...

    def hold(self, key: Key) -> None:
        """The expert is in a slot."""
        ...

    def victim(self, kept: Container[Key], below: Key | None = None) -> Key | None:
        """Who goes, and is held no more; None when all that are held are `kept`.

        With `below`, only one that would go before this one, had its layer's next step visited it.
        """
        ...


class LeastRecentlyUsed:
    """The one visited longest ago goes."""

    def __init__(self) -> None:
        self._held = OrderedDict[Key, None]()

    def visit(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        for expert_id in expert_ids:
            if (layer_id, expert_id) in self._held:
                self._held.move_to_end((layer_id, expert_id))

    def hold(self, key: Key) -> None:
        self._held[key] = None

    def victim(self, kept: Container[Key], below: Key | None = None) -> Key | None:
        # Whoever is visited next goes last.
        found = next((key for key in self._held if key not in kept), None)
        if found is not None:
            del self._held[found]
        return found


class DecayedFrequency:
    """The one with the fewest visits goes, where a visit counts half after `half_life` steps of its layer.

    Those visited once, as far as is remembered, go before all others: a prompt that passes by pushes out nobody.
    `counts` are visits before the first step.
    """

    def __init__(self, half_life: int = HALF_LIFE, counts: Mapping[Key, float] | None = None) -> None:
        self._half_life = half_life
        self._steps = Counter[int]()
        # Not the decayed count c but log2(c) + steps / half_life, which only a visit changes.
        self._score = {key: math.log2(count) for key, count in (counts or {}).items() if count > 0}
        self._came_back = {key for key, score in self._score.items() if score >= 1}
        self._held = dict[Key, Rank]()
        # May hold ranks that a later visit has raised; those count only as they are in `_held`.
        self._heap = list[tuple[Rank, Key]]()

    def visit(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        self._steps[layer_id] += 1
        now = self._steps[layer_id] / self._half_life
        for expert_id in expert_ids:
            key = layer_id, expert_id
            came_back, self._score[key] = self._visited(key, now)
            if came_back:
                self._came_back.add(key)
            else:
                self._came_back.discard(key)
            if key in self._held:
                self._rank(key)

    def hold(self, key: Key) -> None:
        self._rank(key)

    def victim(self, kept: Container[Key], below: Key | None = None) -> Key | None:
        highest = (True, math.inf) if below is None else self._next_rank(below)
        passed, found = list[tuple[Rank, Key]](), None
        while self._heap and self._heap[0][0] < highest and found is None:
            rank, key = heappop(self._heap)
            if self._held.get(key) != rank:
                continue
            if key in kept:
                passed.append((rank, key))
            else:
                found = key
                del self._held[key]
        for entry in passed:
            heappush(self._heap, entry)
        return found

    def _next_rank(self, key: Key) -> Rank:
        """Its rank, were it visited by its layer's next step."""
        return self._visited(key, (self._steps[key[0]] + 1) / self._half_life)

    def _visited(self, key: Key, now: float) -> Rank:
        """Its rank after a visit at `now`."""
        before = self._score.get(key, -math.inf)
        return before - now >= math.log2(_REMEMBERED), now + math.log2(1 + 2 ** (before - now))

    def _rank(self, key: Key) -> None:
        rank = key in self._came_back, self._score.get(key, -math.inf)
        if self._held.get(key) == rank:
            return
        self._held[key] = rank
        heappush(self._heap, (rank, key))
        if len(self._heap) > 4 * len(self._held) + 64:
            self._heap = [(rank, key) for key, rank in self._held.items()]
            heapify(self._heap)


POLICIES: Mapping[str, Callable[[], ExpertPolicy]] = {"lru": LeastRecentlyUsed, "frequency": DecayedFrequency}
"""By the name that a comparison prints."""
