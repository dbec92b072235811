"""Slots against a brute-force twin: none lost, none shared, nobody made to go who is needed, pinned or coming."""

import math
from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shoal.weights.expert_key import Key
from shoal.weights.expert_policy import HALF_LIFE, POLICIES, LeastRecentlyUsed
from shoal.weights.expert_slots import ExpertSlots, replay

EXPERTS = [(layer_id, expert_id) for layer_id in range(2) for expert_id in range(6)]
SOME = st.sets(st.sampled_from(EXPERTS), max_size=5)


class Twin(RuleBasedStateMachine):
    """What slots must say, from two dictionaries."""

    @initialize(
        num_slots=st.integers(1, 5), policy=st.sampled_from(sorted(POLICIES)), pinned=st.sets(st.sampled_from(EXPERTS))
    )
    def begin(self, num_slots: int, policy: str, pinned: set[Key]) -> None:
        self.pinned = set(sorted(pinned)[: num_slots - 1])
        self.slots = ExpertSlots(num_slots, POLICIES[policy](), self.pinned)
        self.coming, self.held = dict[Key, int](), dict[Key, int]()
        self.is_frequency, self.steps, self.visits = policy == "frequency", [0, 0], defaultdict[Key, list[int]](list)

    @rule(key=st.sampled_from(EXPERTS))
    def take(self, key: Key) -> None:
        if key in self.coming or key in self.held:
            assert key in self.slots
            return
        used = len(self.coming) + len(self.held)
        may_go = self.held.keys() - self.slots.needed - self.pinned
        taken = self.slots.take(key)
        if used == self.slots.num_slots and not may_go:
            assert taken is None
            return
        assert taken is not None
        slot, gone = taken
        if used < self.slots.num_slots:
            assert gone is None and slot not in {*self.coming.values(), *self.held.values()}
        else:
            assert gone in may_go and self.held.pop(gone) == slot
        self.coming[key] = slot

    @rule(key=st.sampled_from(EXPERTS), kept=SOME)
    def take_ahead(self, key: Key, kept: set[Key]) -> None:
        if key in self.slots:
            return
        used, (came_back, score) = len(self.coming) + len(self.held), self.rank(key, self.steps[key[0]] + 1)
        others = self.held.keys() - self.slots.needed - self.pinned - kept
        # Scores that are equal but for a rounding may be taken for either.
        below = {other for other in others if self.rank(other) < (came_back, score - 1e-9)}
        may_go = {other for other in others if self.rank(other) <= (came_back, score + 1e-9)}
        taken = self.slots.take_ahead(key, kept)
        if used == self.slots.num_slots and taken is None:
            assert not below
            return
        assert taken is not None
        slot, gone = taken
        if used < self.slots.num_slots:
            assert gone is None
        else:
            assert gone in may_go and self.held.pop(gone) == slot
        self.coming[key] = slot

    @precondition(lambda self: self.coming)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.coming)))
        self.slots.arrive(key)
        self.held[key] = self.coming.pop(key)

    @precondition(lambda self: self.coming)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.coming)))
        self.slots.give_back(key)
        del self.coming[key]

    @rule(needed=SOME)
    def need(self, needed: set[Key]) -> None:
        self.slots.needed = set(needed)

    @rule(layer_id=st.integers(0, 1), experts=st.sets(st.integers(0, 5)).map(sorted))
    def visit(self, layer_id: int, experts: list[int]) -> None:
        self.slots.policy.visit(layer_id, experts)
        self.steps[layer_id] += 1
        for expert_id in experts:
            self.visits[layer_id, expert_id].append(self.steps[layer_id])

    def rank(self, key: Key, *visit: int) -> tuple[bool, float]:
        """What the policy goes by, from all visits and one more."""
        if not self.is_frequency:
            return False, 0.0 if visit else -1.0
        weights = [2 ** (step / HALF_LIFE) for step in (*self.visits[key], *visit)]
        came_back = sum(weights[:-1]) >= weights[-1] / 4 if weights else False
        return came_back, math.log2(sum(weights)) if weights else -math.inf

    @invariant()
    def is_the_same(self) -> None:
        used = [*self.coming.values(), *self.held.values()]
        assert len(set(used)) == len(used) == len(self.slots) <= self.slots.num_slots
        assert self.slots.has_free == (len(used) < self.slots.num_slots)
        for key in EXPERTS:
            assert (key in self.slots) == (key in self.coming or key in self.held)
            assert self.slots.is_held(key) == (key in self.held)


TestSlots = Twin.TestCase
TestSlots.settings = settings(max_examples=40, stateful_step_count=40)


def test_a_replay_counts_what_was_there() -> None:
    steps = [(0, [0, 1]), (0, [1, 2]), (1, [1]), (0, [1, 2])]
    assert replay(steps, ExpertSlots(3, LeastRecentlyUsed())) == (3, 4)
    # In rounds of one.
    assert replay(steps, ExpertSlots(1, LeastRecentlyUsed())) == (1, 6)
