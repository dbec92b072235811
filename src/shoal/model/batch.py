"""What one forward computes: any number of sequences, any number of tokens each, laid end to end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import BFloat16, Bool, Int64
from torch import Tensor

from shoal.model.cache import SequenceCache

WantedLogits = Literal["last", "all", "none"]


@dataclass(frozen=True)
class Span:
    """One sequence's rows of a batch, [start, end), and the absolute position of its first row."""

    start: int
    end: int
    position: int

    @property
    def rows(self) -> slice:
        """The rows of any tensor with a token axis."""
        return slice(self.start, self.end)

    @property
    def count(self) -> int:
        """How many tokens the sequence brings."""
        return self.end - self.start


@dataclass(frozen=True)
class Batch:
    """Tokens of several sequences end to end, and the rows whose logits are wanted.

    `image_mask` marks rows inside an image span and `image_rows` holds, in order, what replaces their embeddings
    (spec vision §4); both are None for text.
    """

    token_ids: Int64[Tensor, "tokens"]
    spans: tuple[Span, ...]
    logit_rows: Int64[Tensor, "wanted"]
    image_mask: Bool[Tensor, "tokens"] | None = None
    image_rows: BFloat16[Tensor, "images dim"] | None = None

    @classmethod
    def build(
        cls,
        chunks: Sequence[Sequence[int]],
        caches: Sequence[SequenceCache],
        *,
        logits: WantedLogits | Sequence[bool] = "last",
    ) -> "Batch":
        """A batch of each sequence's next tokens, and whose logits are wanted: each last row's, all rows', none.

        Booleans say of each sequence whether its last row's are. Every chunk holds at least one token, and every cache
        belongs to one chunk.
        """
        assert len(chunks) == len(caches) == len({id(cache) for cache in caches}), (len(chunks), len(caches))
        assert all(chunks), [len(chunk) for chunk in chunks]
        spans, start = [], 0
        for chunk, cache in zip(chunks, caches, strict=True):
            spans.append(Span(start, start + len(chunk), cache.length))
            start += len(chunk)
        token_ids = torch.tensor([token for chunk in chunks for token in chunk], dtype=torch.int64)
        last = [span.end - 1 for span in spans]
        if isinstance(logits, str):
            rows = {"last": last, "all": list(range(start)), "none": []}[logits]
        else:
            rows = [row for row, is_wanted in zip(last, logits, strict=True) if is_wanted]
        return cls(token_ids, tuple(spans), torch.tensor(rows, dtype=torch.int64))

    @property
    def positions(self) -> Int64[Tensor, "tokens"]:
        """The absolute position of every row."""
        return torch.cat([torch.arange(s.position, s.position + s.count) for s in self.spans])
