"""From compressed token ids to table rows (spec §6.2).

A sequence remembers its last `history_length` compressed ids and nothing else. `DEAD` stands both for a
position inside an image span and for one before the sequence began: spec §6.2 blocks a lookback on either
("p < s or c = DEAD"), and blocked is blocked, so one sentinel serves both.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from shoal.engram.layout import LayerTables

DEAD = -1

Int64Array = NDArray[np.int64]


def empty_history(length: int) -> Int64Array:
    """The history of a sequence that has no token yet: int64 [length], all `DEAD`."""
    return np.full(length, DEAD, dtype=np.int64)


def next_history(history: Int64Array, compressed: Int64Array) -> Int64Array:
    """The history after `compressed` [tokens] followed `history` [length]: a new int64 [length]."""
    length = len(history)
    return np.concatenate([history, compressed])[len(compressed) : len(compressed) + length]


def hash_rows(layer: LayerTables, history: Int64Array, compressed: Int64Array, *, pad: int) -> Int64Array:
    """The table row of every n-gram ending at each token: int64 [tokens, columns].

    `history` int64 [history_length] holds the compressed ids before the chunk, oldest first; `compressed`
    int64 [tokens] the chunk's, with `DEAD` inside image spans; `pad` is the compressed pad id, read in place
    of a blocked lookback. All products and their xor stay below 2^63, so nothing wraps.
    """
    assert history.shape == (layer.history_length,), (history.shape, layer.history_length)
    return hash_lookbacks(layer, lookbacks(history, compressed), pad=pad)


def lookbacks(history: Int64Array, compressed: Int64Array) -> Int64Array:
    """What each token of a chunk looks back at: int64 [tokens, 1 + history_length], itself first.

    Those of several sequences may be put end to end: every row is hashed by itself.
    """
    assert history.dtype == compressed.dtype == np.int64, (history.dtype, compressed.dtype)
    ids = np.concatenate([history, compressed])
    looked_at: Int64Array = ids[np.arange(len(history), len(ids))[:, None] - np.arange(1 + len(history))]
    return looked_at


def hash_lookbacks(layer: LayerTables, ids: Int64Array, *, pad: int) -> Int64Array:
    """`hash_rows` of tokens that look back at `ids` [tokens, 1 + history_length]."""
    rows: Int64Array = np.repeat(_ngram_hashes(layer, ids, pad), len(layer.primes[0]), axis=1)
    rows %= _array(layer.buckets)
    rows += _array(layer.offsets)
    return rows


@cache
def _array(values: tuple[int, ...]) -> Int64Array:
    """Made once: a token of a short step is hashed in the time that this takes."""
    return np.array(values, dtype=np.int64)


def _ngram_hashes(layer: LayerTables, ids: Int64Array, pad: int) -> Int64Array:
    """rho_1, rho_2, ... of each token: int64 [tokens, n-grams]."""
    # Sticky: beyond an image or the sequence start nothing is read again, even if it is text.
    blocked = np.logical_or.accumulate(ids == DEAD, axis=1)
    products = np.where(blocked, pad, ids) * _array(layer.multipliers)
    hashes: Int64Array = np.bitwise_xor.accumulate(products, axis=1)[:, 1:]
    return hashes
