"""The stages of training: what each reads, for how long, and at what rate.

Copying from afar does not come by itself. It is learned in the window first, where it takes a hundred steps of nothing
else; then entries are put where the window's keys are (`entries.py`), and the distances grow.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """`shares` of kinds in `tokens` of corpus; for the first `dense` steps all entries are read, selected or not.

    The rate rises for `warm_up` steps to `rate`, stays, and falls to nothing over the last `falling` of the stage.
    """

    name: str
    shares: Mapping[str, float]
    tokens: int
    steps: int
    dense: int
    rate: float = 1.0
    warm_up: int = 60
    falling: float = 0.6
    entries_from_keys: bool = False

    def share(self, step: int) -> float:
        """The rate at a step, of the full one."""
        left = (self.steps - step) / self.steps
        fall = max(0.0, left / self.falling) if self.falling else 1.0
        return self.rate * min(1.0, (step + 1) / self.warm_up, fall)


FACTS = Stage(
    "facts",
    {
        "facts": 0.22, "facts-chat": 0.16, "arithmetic": 0.16, "basics": 0.08, "stories": 0.06, "copying": 0.06,
        "long-copy": 0.06, "tools": 0.14, "json": 0.06,
    },
    tokens=6_000_000,
    steps=1350,
    dense=400,
)  # fmt: skip
REPEATING = Stage(
    "repeating",
    {"repeat": 0.75, "facts": 0.1, "facts-chat": 0.05, "arithmetic": 0.05, "basics": 0.05},
    tokens=1_000_000,
    steps=150,
    dense=150,
    warm_up=20,
    falling=0.0,
)
AFAR = Stage(
    "afar",
    {
        "facts": 0.15, "facts-chat": 0.12, "arithmetic": 0.09, "basics": 0.05, "stories": 0.02, "copying": 0.05,
        "repeat": 0.03, "repeat-afar": 0.10, "long-copy": 0.11, "tools": 0.15, "json": 0.13,
    },
    tokens=6_500_000,
    steps=1600,
    dense=860,
    rate=0.8,
    warm_up=20,
    entries_from_keys=True,
)  # fmt: skip
FINISH = Stage(
    "finish",
    {
        "facts": 0.26, "facts-chat": 0.15, "arithmetic": 0.10, "basics": 0.08, "copying": 0.03, "repeat": 0.04,
        "repeat-afar": 0.04, "long-copy": 0.04, "tools": 0.14, "json": 0.12,
    },
    tokens=4_200_000,
    steps=1150,
    dense=0,
    rate=0.9,
    warm_up=10,
    falling=0.85,
)  # fmt: skip
POLISH = Stage(
    "polish",
    {
        "facts": 0.45, "facts-chat": 0.12, "arithmetic": 0.08, "basics": 0.11, "repeat": 0.02, "repeat-afar": 0.03,
        "long-copy": 0.02, "tools": 0.08, "json": 0.09,
    },
    tokens=1_100_000,
    steps=280,
    dense=0,
    rate=0.4,
    warm_up=10,
    falling=1.0,
)  # fmt: skip
STAGES = (FACTS, REPEATING, AFAR, FINISH, POLISH)
