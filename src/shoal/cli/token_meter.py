"""What each token took of the stores: the differences of their counts."""

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.weights.engram_store import EngramStatistics
    from shoal.weights.expert_statistics import ExpertStatistics

Counts = dict[str, int | float]


class TokenMeter:
    """Marks the end of each token; the first one's counts are the whole prompt's too."""

    def __init__(self, experts: "ExpertStatistics | None", engram: "EngramStatistics | None") -> None:
        given = {"experts": experts, "engram": engram}
        self._stores = {name: store for name, store in given.items() if store is not None}
        self._before = self._now()
        self.tokens = list[dict[str, Counts]]()

    def mark(self) -> None:
        """A token is done."""
        now = self._now()
        self.tokens.append(
            {
                name: {field: count - self._before[name][field] for field, count in counts.items()}
                for name, counts in now.items()
            }
        )
        self._before = now

    def _now(self) -> dict[str, Counts]:
        return {name: asdict(store) for name, store in self._stores.items()}
