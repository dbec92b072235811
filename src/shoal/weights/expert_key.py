"""What names a routed expert."""

from collections.abc import Sequence

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig

Key = tuple[int, int]
"""Layer and expert."""


def expert_keys(config: ModelConfig, plans: Sequence[LayerPlan]) -> list[Key]:
    """Every routed expert of the layers."""
    counts = [(plan, config.num_draft_experts if plan.is_draft else config.n_routed_experts) for plan in plans]
    return [(plan.layer_id, expert_id) for plan, count in counts for expert_id in range(count)]
