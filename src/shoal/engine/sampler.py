"""Logits to a token id. The same request draws the same tokens always, on every machine.

Draws are counted, not streamed: the number for a position depends on the seed and the position alone, so that
nothing which ran before, or beside, can change it.
"""

import hashlib

import numpy as np
import torch
from jaxtyping import Float32, Float64
from torch import Tensor

from shoal.engine.request import SamplingOptions
from shoal.errors import CheckpointError
from shoal.ops.elementary import exp

_DRAW_BITS = 53


class Sampler:
    """Chooses the tokens of one request."""

    def __init__(self, options: SamplingOptions) -> None:
        self.options = options

    def choose(self, logits: Float32[Tensor, "vocab"], position: int) -> int:
        """The id that stands at `position`; raises `CheckpointError` when a logit is not finite.

        Equal logits rank by id, lower first.
        """
        if not bool(logits.isfinite().all()):
            raise CheckpointError(
                f"the logits for position {position} are not finite",
                hint="a weight of the checkpoint is damaged; compare its files with the published checksums.",
            )
        if self.options.temperature == 0.0:
            # Not torch.argmax, which promises no order among equals.
            return int((logits == logits.max()).nonzero()[0, 0])
        weights, ids = ranked_weights(logits, self.options.temperature)
        return int(ids[draw(weights, self.options.top_p, uniform(self.options.seed, position))])


def ranked_weights(
    logits: Float32[Tensor, "vocab"], temperature: float
) -> tuple[Float64[np.ndarray, "vocab"], np.ndarray]:
    """e^((x − max x) / temperature) in float64, largest first, and the id of each: float64 and int64 [vocab]."""
    # Sorted before the exponential: different logits may have equal weights, and keep their order.
    ranked, ids = torch.sort(logits, descending=True, stable=True)
    wide = ranked.double()
    return exp((wide - wide[0]) / temperature).numpy(), ids.numpy()


def draw(weights: Float64[np.ndarray, "vocab"], top_p: float, fraction: float) -> int:
    """The rank in which `fraction` (in [0, 1)) of the kept mass falls.

    Kept are the fewest first ranks whose mass reaches `top_p` of the whole. Masses are running sums, in order.
    """
    masses = np.cumsum(weights)
    kept = int(np.searchsorted(masses, top_p * masses[-1], side="left"))
    return min(kept, int(np.searchsorted(masses, fraction * masses[kept], side="right")))


def uniform(seed: int, position: int) -> float:
    """A multiple of 2^-53 in [0, 1): the first bits of SHA-256 of `seed` and `position` (64 bits each)."""
    digest = hashlib.sha256(seed.to_bytes(8, "little") + position.to_bytes(8, "little")).digest()
    return float(int.from_bytes(digest[:8], "little") >> (64 - _DRAW_BITS)) * 2.0**-_DRAW_BITS
