"""Logits to a token id. The same request draws the same tokens always, on every machine.

Draws are counted, not streamed: the number for a position depends on the seed and the position alone, so that
nothing which ran before, or beside, can change it.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float32, Float64
from torch import Tensor

from shoal.engine.constraint import ConstraintMaker
from shoal.engine.logprobs import TokenLogprobs, token_logprobs
from shoal.engine.penalties import Penalties
from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import CheckpointError
from shoal.ops.elementary import exp

_DRAW_BITS = 53


class Sampler:
    """Chooses the tokens of one request and keeps count of them."""

    def __init__(
        self,
        options: SamplingOptions,
        prompt_ids: Sequence[int] = (),
        vocab_size: int = 0,
        constraint: ConstraintMaker | None = None,
    ) -> None:
        self.options = options
        self._constraint = None if constraint is None else constraint()
        self._penalties = Penalties(options, prompt_ids, vocab_size) if options.changes_logits else None

    def choose(self, logits: Float32[Tensor, "vocab"], position: int) -> int:
        """The id that stands at `position`; raises `CheckpointError` when a logit is not finite.

        Equal logits rank by id, lower first. Raises `OptionError` where the constraint allows no token.
        """
        # The least and the largest are not finite where any is not: one pass, without a vector of answers.
        if not all(bound.isfinite() for bound in torch.aminmax(logits)):
            raise CheckpointError(
                f"the logits for position {position} are not finite",
                hint="a weight of the checkpoint is damaged; compare its files with the published checksums.",
            )
        changed = logits if self._penalties is None else self._penalties.apply(logits)
        token_id = self._draw(self._allowed(changed), position)
        if self._penalties is not None:
            self._penalties.count(token_id)
        if self._constraint is not None:
            self._constraint.accept(token_id)
        return token_id

    @property
    def is_done(self) -> bool:
        """Whether the answer is whole, so that only the end of the sequence could follow."""
        return self._constraint is not None and self._constraint.is_done

    def logprobs(self, logits: Float32[Tensor, "vocab"], token_id: int) -> TokenLogprobs | None:
        """What the model thought of a token, where the request wants to know."""
        count = self.options.logprobs
        return None if count is None else token_logprobs(logits, token_id, count)

    def _allowed(self, logits: Float32[Tensor, "vocab"]) -> Float32[Tensor, "vocab"]:
        """The logits of what the constraint lets come, -inf for the others: last, so that nothing undoes it."""
        mask = None if self._constraint is None else self._constraint.mask()
        return logits if mask is None else logits.masked_fill(~mask, -torch.inf)

    def _draw(self, logits: Float32[Tensor, "vocab"], position: int) -> int:
        options = self.options
        if options.temperature == 0.0:
            # The first of equals, which torch.argmax does not promise.
            return int(logits.numpy().argmax())
        weights, ids = ranked_weights(logits, options.temperature)
        weights = weights[: kept_ranks(weights, options.top_k, options.min_p)]
        return int(ids[draw(weights, options.top_p, uniform(options.seed, position))])


def ranked_weights(
    logits: Float32[Tensor, "vocab"], temperature: float
) -> tuple[Float64[np.ndarray, "vocab"], np.ndarray]:
    """e^((x − max x) / temperature) in float64, largest first, and the id of each: float64 and int64 [vocab]."""
    # Sorted before the exponential: different logits may have equal weights, and keep their order.
    ranked, ids = torch.sort(logits, descending=True, stable=True)
    wide = ranked.double()
    return exp((wide - wide[0]) / temperature).numpy(), ids.numpy()


def kept_ranks(weights: Float64[np.ndarray, "vocab"], top_k: int, min_p: float) -> int:
    """How many first ranks of `weights`, largest first, are among `top_k` (0: all) and have `min_p` of the first."""
    likely = int(np.searchsorted(-weights, -min_p * weights[0], side="right"))
    return max(1, min(likely, top_k or len(weights)))


def draw(weights: Float64[np.ndarray, "ranks"], top_p: float, fraction: float) -> int:
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
