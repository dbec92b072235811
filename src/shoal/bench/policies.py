"""Which policy keeps the right experts: a recorded trace replayed against each, at several capacities."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shoal.weights.expert_policy import POLICIES
from shoal.weights.expert_slots import ExpertSlots, replay

SHARES = 0.05, 0.1, 0.25, 0.5, 0.75
"""Of the experts that the trace names."""

Step = tuple[int, Sequence[int]]


@dataclass(frozen=True)
class PolicyRates:
    """The share of experts asked for that were in one of `num_slots`, by policy."""

    num_slots: int
    rates: dict[str, float]


def compare_policies(steps: Iterable[Step], shares: Sequence[float] = SHARES) -> list[PolicyRates]:
    """Hit rates of every policy with slots for these shares of all experts in the trace, from cold."""
    steps = list(steps)
    num_experts = len({(layer_id, expert_id) for layer_id, expert_ids in steps for expert_id in expert_ids})
    counts = sorted({max(1, round(num_experts * share)) for share in shares}) if num_experts else []
    return [PolicyRates(count, {name: _rate(steps, count, name) for name in POLICIES}) for count in counts]


def policy_lines(found: Sequence[PolicyRates]) -> list[str]:
    """The comparison as a table."""
    header = f"{'experts held':>12}" + "".join(f"{name:>12}" for name in POLICIES)
    rows = [f"{each.num_slots:>12,}" + "".join(f"{rate:>12.1%}" for rate in each.rates.values()) for each in found]
    return [header, *rows]


def _rate(steps: Sequence[Step], num_slots: int, policy: str) -> float:
    hits, misses = replay(steps, ExpertSlots(num_slots, POLICIES[policy]()))
    return hits / (hits + misses)
