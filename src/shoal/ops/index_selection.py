"""What an index source selects, and how a candidate source restricts those after it (spec §4.5)."""

from dataclasses import dataclass

from jaxtyping import BFloat16, Bool, Int64
from torch import Tensor


@dataclass(frozen=True)
class CandidateBlocks:
    """How a candidate source restricts the index sources after it: the best `count` blocks of `size` positions."""

    size: int
    count: int


@dataclass(frozen=True)
class IndexSelection:
    """What the tokens of one sequence read; candidates and scores where they were asked for."""

    selected: Int64[Tensor, "tokens count"]
    candidates: Bool[Tensor, "tokens positions"] | None
    scores: BFloat16[Tensor, "tokens positions"] | None
