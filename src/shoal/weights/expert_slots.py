"""Which expert has which slot. No memory and no threads: only who may be where."""

from collections.abc import Callable, Collection, Iterable

from shoal.weights.expert_key import Key
from shoal.weights.expert_policy import ExpertPolicy


class ExpertSlots:
    """Slots 0 to `num_slots` - 1. An expert in one is *coming* until `arrive`, then *held* until it must go.

    Nobody who is coming, `needed` or `pinned` is made to go; of the others the policy picks.
    """

    def __init__(self, num_slots: int, policy: ExpertPolicy, pinned: Collection[Key] = ()) -> None:
        assert num_slots > 0 and len(pinned) < num_slots, (num_slots, len(pinned))
        self.num_slots, self.policy, self.pinned = num_slots, policy, frozenset(pinned)
        self.needed = set[Key]()
        self._free = list(reversed(range(num_slots)))
        self._slots = dict[Key, int]()
        self._coming = set[Key]()

    def __contains__(self, key: object) -> bool:
        """Whether the expert has a slot, coming or held."""
        return key in self._slots

    def __len__(self) -> int:
        return len(self._slots)

    def is_held(self, key: Key) -> bool:
        """Whether its weights are in its slot."""
        return key in self._slots and key not in self._coming

    @property
    def has_free(self) -> bool:
        """Whether a slot can be taken without anybody going."""
        return bool(self._free)

    def take(self, key: Key) -> tuple[int, Key | None] | None:
        """A slot for an expert that has none and is now coming, and who went for it; None when nobody may go."""
        return self._take(key, lambda: self.policy.victim(_Either(self.needed, self.pinned)))

    def take_ahead(self, key: Key, kept: Collection[Key]) -> tuple[int, Key | None] | None:
        """`take` for one that may be asked for next: nobody `kept` goes, nor whom the policy ranks above it."""
        return self._take(key, lambda: self.policy.victim(_Either(self.needed, self.pinned, kept), key))

    def _take(self, key: Key, find_victim: Callable[[], Key | None]) -> tuple[int, Key | None] | None:
        assert key not in self._slots, key
        gone = None
        if not self._free:
            gone = find_victim()
            if gone is None:
                return None
            self._free.append(self._slots.pop(gone))
        slot = self._slots[key] = self._free.pop()
        self._coming.add(key)
        return slot, gone

    def retire(self) -> tuple[int, Key | None] | None:
        """A slot that nobody gets any more until `reuse`, and who went for it; None when nobody may go now.

        One slot is left at least, and one that is not for the pinned.
        """
        if self.num_slots == 1:
            return None
        if len(self.pinned) >= self.num_slots - 1:
            self.pinned = frozenset()
        gone = None
        if not self._free:
            gone = self.policy.victim(_Either(self.needed, self.pinned))
            if gone is None:
                return None
            self._free.append(self._slots.pop(gone))
        self.num_slots -= 1
        return self._free.pop(), gone

    def reuse(self, slot: int) -> None:
        """One that was retired is free."""
        self.num_slots += 1
        self._free.append(slot)

    def arrive(self, key: Key) -> None:
        """The weights of one that was coming are there."""
        self._coming.remove(key)
        self.policy.hold(key)

    def give_back(self, key: Key) -> None:
        """One that was coming does not come."""
        self._coming.remove(key)
        self._free.append(self._slots.pop(key))


class _Either:
    def __init__(self, *parts: Collection[Key]) -> None:
        self._parts = parts

    def __contains__(self, key: object) -> bool:
        return any(key in part for part in self._parts)


def replay(steps: Iterable[tuple[int, Collection[int]]], slots: ExpertSlots) -> tuple[int, int]:
    """Hits and misses of steps (a layer and its experts) as the cached store would have them, read by read."""
    hits = misses = 0
    for layer_id, expert_ids in steps:
        slots.policy.visit(layer_id, sorted(expert_ids))
        keys = [(layer_id, expert_id) for expert_id in sorted(expert_ids)]
        held = {key for key in keys if key in slots}
        hits, misses = hits + len(held), misses + len(keys) - len(held)
        slots.needed = set(held)
        for key in keys:
            if key in held:
                continue
            if (taken := slots.take(key)) is None:
                # A round is over: those that came may go.
                slots.needed.clear()
                taken = slots.take(key)
            assert taken is not None, (key, slots.num_slots)
            slots.arrive(key)
            slots.needed.add(key)
    return hits, misses
