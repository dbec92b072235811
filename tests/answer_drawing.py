"""Answers drawn from noise under a constraint: what a model that knows nothing would say at temperature 1.5."""

from functools import cache

import torch
from torch import Tensor

from shoal.engine.constraint import ConstraintMaker
from shoal.text.tokenizer import Tokenizer

# Liked more and more, or noise would not end in this life.
CLOSING = {"<", '"', "}", "]", '"}', '"]', "</think>", "<｜end▁of▁sentence｜>", "1"}
CLOSING_TAGS = {"</", "/", "｜DSML｜"}


def draw_answer(
    tokenizer: Tokenizer, maker: ConstraintMaker, seed: int, vocab_size: int, most: int = 600
) -> tuple[list[int], bool]:
    """The ids of an answer, and whether it came to its end in `most`."""
    constraint, generator = maker(), torch.Generator().manual_seed(seed)
    ids: list[int] = []
    while len(ids) < most:
        logits = torch.randn(vocab_size, generator=generator) + closing(tokenizer, vocab_size) * min(
            12, 0.15 * len(ids)
        )
        mask = constraint.mask()
        if mask is not None:
            logits[~mask] = -torch.inf
        # Gumbel's way to draw in proportion to e^(logit / 1.5).
        noise = -(-torch.rand(vocab_size, generator=generator).log()).log()
        token_id = int((logits / 1.5 + noise).argmax())
        constraint.accept(token_id)
        if token_id == tokenizer.eos_id:
            return ids, True
        ids.append(token_id)
        if constraint.is_done:
            return ids, True
    return ids, False


@cache
def closing(tokenizer: Tokenizer, vocab_size: int) -> Tensor:
    """How much each token is liked for closing something."""
    liking = torch.zeros(vocab_size)
    for each in range(tokenizer.vocab_size):
        text = tokenizer.decode([each])
        liking[each] = 1.0 * (text in CLOSING) + 1.3 * (text in CLOSING_TAGS)
    return liking
