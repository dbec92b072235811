"""How well a model predicts a text: −ln of the probability it gives each token, the others before it known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from shoal.engine.model import Model
from shoal.errors import CheckpointError
from shoal.model.batch import Batch

# Of logits held at once: all rows of a chunk at the release's vocabulary would be a GiB.
MOST_LOGITS_NBYTES = 256 << 20
FLOAT32_NBYTES = 4

BUCKETS: tuple[tuple[int, int | None], ...] = ((0, 32), (32, 64), (64, 128), (128, 256), (256, 512), (512, None))
"""Positions of predicted tokens, half-open; position 0 is the text's first token."""


@dataclass(frozen=True)
class Perplexity:
    """The sum over `tokens` predicted tokens of −ln of their probability."""

    nats: float
    tokens: int

    @property
    def value(self) -> float | None:
        """e to the mean: 1 is certainty, the vocabulary's size is a guess. None without tokens or beyond float64."""
        if not self.tokens:
            return None
        try:
            return math.exp(self.nats / self.tokens)
        except OverflowError:
            return None


def bucket_name(bucket: tuple[int, int | None]) -> str:
    """As a table names it: 32-63, 512+."""
    start, end = bucket
    return f"{start}+" if end is None else f"{start}-{end - 1}"


def token_nats(model: Model, token_ids: Sequence[int], chunk_tokens: int) -> tuple[float, ...]:
    """−ln of the probability of each of `token_ids` but the first, at most `chunk_tokens` read at once.

    The same for any chunk. Raises `CheckpointError` when a logit is not finite.
    """
    fit = MOST_LOGITS_NBYTES // (FLOAT32_NBYTES * model.config.vocab_size)
    chunk = max(1, min(chunk_tokens, fit))
    cache = model.new_cache()
    nats: list[float] = []
    for start in range(0, len(token_ids) - 1, chunk):
        end = min(start + chunk, len(token_ids) - 1)
        output = model.forward(Batch.build([token_ids[start:end]], [cache], logits="all"), [cache])
        rows = output.logits.numpy()
        nats += [_nats(row, token) for row, token in zip(rows, token_ids[start + 1 : end + 1], strict=True)]
    return tuple(nats)


def _nats(logits: Float32[np.ndarray, "vocab"], token_id: int) -> float:
    """ln Σ e^(x − max x) − (x[token] − max x), in float64, a row at a time: the sum's order is then the row's own."""
    if not np.isfinite(logits).all():
        raise CheckpointError(
            "the logits of a text are not finite",
            hint="a weight of the checkpoint is damaged; compare its files with the published checksums.",
        )
    shifted = logits.astype(np.float64) - float(logits.max())
    return float(np.log(np.exp(shifted).sum()) - shifted[token_id])
