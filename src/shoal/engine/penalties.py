"""Logits changed by what was said before and by what a caller wants of single tokens."""

from collections.abc import Sequence

import torch
from jaxtyping import Float32
from torch import Tensor

from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import OptionError


class Penalties:
    """The counts of one answer's tokens, and what they do to the next logits."""

    def __init__(self, options: SamplingOptions, prompt_ids: Sequence[int], vocab_size: int) -> None:
        """Raises OptionError for a bias of a token that is not in the vocabulary."""
        self.options = options
        self._counts = torch.zeros(vocab_size)
        self._is_known = torch.zeros(vocab_size, dtype=torch.bool)
        self._is_known[list(prompt_ids)] = True
        self._bias = torch.zeros(vocab_size)
        for token_id, bias in options.logit_bias.items():
            if token_id >= vocab_size:
                raise OptionError(f"`logit_bias` names token {token_id}, expected 0 to {vocab_size - 1}")
            self._bias[token_id] = bias

    def count(self, token_id: int) -> None:
        """The answer has one more of it."""
        self._counts[token_id] += 1
        self._is_known[token_id] = True

    def apply(self, logits: Float32[Tensor, "vocab"]) -> Float32[Tensor, "vocab"]:
        """New logits; those given stay as they are."""
        penalty = self.options.repetition_penalty
        repeated = torch.where(logits > 0, logits / penalty, logits * penalty)
        changed = torch.where(self._is_known, repeated, logits)
        changed = changed - self.options.frequency_penalty * self._counts
        changed = changed - self.options.presence_penalty * (self._counts > 0)
        return changed + self._bias
