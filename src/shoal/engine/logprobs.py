"""The natural logarithms of the probabilities that the model itself gives, before anything is penalised or cut."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor


@dataclass(frozen=True)
class TokenLogprobs:
    """Of the token taken, and (id, ln p) of the likeliest ones, the likeliest first, equal ones by id."""

    logprob: float
    top: tuple[tuple[int, float], ...]


def token_logprobs(logits: Float32[Tensor, "vocab"], token_id: int, count: int) -> TokenLogprobs:
    """x - max x - ln Σ e^(x - max x), in float64, of the token and of the `count` likeliest."""
    shifted = logits.numpy().astype(np.float64) - float(logits.max())
    total = float(np.log(np.exp(shifted).sum()))
    ids = torch.sort(logits, descending=True, stable=True).indices[:count].tolist()
    return TokenLogprobs(float(shifted[token_id]) - total, tuple((each, float(shifted[each]) - total) for each in ids))
