"""Keeps plain tokens from spelling what only a marker may mean.

A reader of the text cannot tell a marker from the same characters made of plain tokens, so that such characters
would end a thought, or open a call, which no grammar has seen.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from jaxtyping import Bool
from torch import Tensor


class SpellingGuard:
    """Of `tokens`, by id, which complete one of `texts` behind what was said before."""

    def __init__(self, tokens: Mapping[int, bytes], texts: Sequence[str]) -> None:
        self._texts = [text.encode() for text in texts]
        self._whole = [each for each, token in tokens.items() if any(text in token for text in self._texts)]
        # Sorted, so that all tokens which begin with some bytes lie together.
        self._sorted = sorted((token, each) for each, token in tokens.items())

    def tail(self, tail: bytes, token: bytes) -> bytes:
        """What has to be remembered of the text once `token` is behind `tail`."""
        return (tail + token)[1 - max(map(len, self._texts)) :]

    def forbid(self, mask: Bool[Tensor, "vocab"], tail: bytes) -> None:
        """Takes from `mask` what would complete a text behind `tail`, unless that were all that is left."""
        ids = [*self._whole]
        for text in self._texts:
            for size in range(1, min(len(text), len(tail) + 1)):
                if tail.endswith(text[:size]):
                    ids += self._starting(text[size:])
        if not ids:
            return
        allowed = mask[ids]
        mask[ids] = False
        if not bool(mask.any()):
            mask[ids] = allowed

    def _starting(self, prefix: bytes) -> list[int]:
        first = bisect_left(self._sorted, (prefix, -1))
        # 0xFF stands in no UTF-8, so nothing that begins with `prefix` sorts behind this.
        return [each for _, each in self._sorted[first : bisect_left(self._sorted, (prefix + b"\xff" * 8, -1))]]
