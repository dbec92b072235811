"""Policies replayed on traces whose best policy is known."""

from shoal.bench.policies import compare_policies, policy_lines

# Every other step asks for the same two, the others for somebody new each time.
PASSERS_BY = [(0, [0, 1] if step % 2 else [2 + step % 40, 42 + step % 40]) for step in range(400)]
# Interests that move on every 500 steps.
MOVING = [(0, [step // 500 * 3 + step % 3]) for step in range(2000)]


def test_passers_by_push_out_nobody_who_comes_back() -> None:
    (found,) = compare_policies(PASSERS_BY, [0.05])
    assert found.num_slots == 2
    # In turn they push out each other under LRU; a step's two are needed at once, so one round is lost.
    assert found.rates["frequency"] >= found.rates["lru"]


def test_when_interests_move_on_both_follow() -> None:
    (found,) = compare_policies(MOVING, [0.5])
    # Frequency a little later: those of before go when they count less than the new ones.
    assert found.rates["lru"] > 0.99 and found.rates["frequency"] > 0.8


def test_rates_are_shares_and_more_slots_hit_more() -> None:
    found = compare_policies(PASSERS_BY)
    for name in ("lru", "frequency"):
        rates = [each.rates[name] for each in found]
        assert rates == sorted(rates) and rates[0] >= 0 and rates[-1] <= 1
    assert len(policy_lines(found)) == 1 + len(found)


def test_an_empty_trace_has_no_rates() -> None:
    assert compare_policies([]) == []
