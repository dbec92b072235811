"""Who goes: against what is said of the policy, written plainly."""

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.weights.expert_key import Key
from shoal.weights.expert_policy import POLICIES, DecayedFrequency, ExpertPolicy, LeastRecentlyUsed


def visits(policy: ExpertPolicy, *steps: Sequence[int]) -> None:
    for step in steps:
        policy.visit(0, step)


def held(policy: ExpertPolicy, *experts: int) -> ExpertPolicy:
    for expert_id in experts:
        policy.hold((0, expert_id))
    return policy


def test_the_one_visited_longest_ago_goes() -> None:
    policy = held(LeastRecentlyUsed(), 1, 2, 3)
    visits(policy, [2], [1], [9])
    assert [policy.victim(()) for _ in range(4)] == [(0, 3), (0, 2), (0, 1), None]


def test_those_visited_once_go_before_those_that_came_back() -> None:
    policy = DecayedFrequency(half_life=100)
    visits(policy, [1], [1], [2], [3])
    held(policy, 1, 2, 3)
    assert [policy.victim(()) for _ in range(4)] == [(0, 2), (0, 3), (0, 1), None]


def test_old_visits_count_less_and_are_forgotten() -> None:
    policy = DecayedFrequency(half_life=2)
    visits(policy, [1], [1], [1], [2], [2], [], [])
    held(policy, 1, 2)
    assert policy.victim(()) == (0, 1)
    visits(policy, *[[]] * 20, [2], [3], [3])
    held(policy, 3)
    # 2 was here so long ago that it counts as new.
    assert policy.victim(()) == (0, 2)


def test_a_profile_says_who_is_visited_before_anybody_was() -> None:
    policy = held(DecayedFrequency(counts={(0, 1): 5.0, (0, 2): 50.0}), 1, 2, 3)
    assert [policy.victim(()) for _ in range(3)] == [(0, 3), (0, 1), (0, 2)]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_those_kept_stay_and_may_go_later(policy: Callable[[], ExpertPolicy]) -> None:
    found = held(policy(), 1, 2)
    assert found.victim({(0, 1), (0, 2)}) is None
    first = found.victim({(0, 1)})
    assert first == (0, 2)
    assert found.victim(()) == (0, 1)


HALF_LIFE = 3


def rank(history: list[list[int]], expert_id: int) -> tuple[bool, float]:
    """Whether it came back, and its decayed count, from the whole history."""
    count, came_back = 0.0, False
    for step in history:
        count *= 2 ** (-1 / HALF_LIFE)
        if expert_id in step:
            came_back = count >= 0.25
            count += 1
    return came_back, math.log2(count) if count else -math.inf


@given(steps=st.lists(st.sets(st.integers(0, 7), min_size=1).map(sorted), min_size=1, max_size=40))
def test_decayed_counts_are_those_of_the_whole_history(steps: list[list[int]]) -> None:
    policy, slots, history = DecayedFrequency(HALF_LIFE), set[Key](), list[list[int]]()
    for step in steps:
        policy.visit(0, step)
        history.append(step)
        for expert_id in step:
            if (0, expert_id) in slots:
                continue
            if len(slots) == 3:
                victim = policy.victim(())
                assert victim in slots
                slots.remove(victim)
                lowest = rank(history, victim[1])
                for _, other in slots:
                    came_back, count = rank(history, other)
                    assert (lowest[0], lowest[1] - 1e-9) <= (came_back, count)
            slots.add((0, expert_id))
            policy.hold((0, expert_id))
