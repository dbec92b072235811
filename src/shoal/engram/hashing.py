"""From compressed token ids to table rows (spec §6.2).

A sequence remembers its last `history_length` compressed ids and nothing else. `DEAD` stands both for a
position inside an image span and for one before the sequence began: spec §6.2 blocks a lookback on either
("p < s or c = DEAD"), and blocked is blocked, so one sentinel serves both.
"""

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
    assert history.dtype == compressed.dtype == np.int64, (history.dtype, compressed.dtype)
    heads = len(layer.primes[0])
    hashes = np.repeat(_ngram_hashes(layer, history, compressed, pad), heads, axis=1)
    rows: Int64Array = hashes % np.array(layer.buckets) + np.array(layer.offsets)
    return rows


def _ngram_hashes(layer: LayerTables, history: Int64Array, compressed: Int64Array, pad: int) -> Int64Array:
    """rho_1, rho_2, ... of each token: int64 [tokens, n-grams]."""
    ids = np.concatenate([history, compressed])
    blocked = np.zeros(len(compressed), dtype=np.bool_)
    rho = np.zeros(len(compressed), dtype=np.int64)
    hashes = np.empty((len(compressed), layer.history_length), dtype=np.int64)
    for lookback, multiplier in enumerate(layer.multipliers):
        start = layer.history_length - lookback
        seen = ids[start : start + len(compressed)]
        # Sticky: beyond an image or the sequence start nothing is read again, even if it is text.
        blocked = blocked | (seen == DEAD)
        rho = rho ^ np.where(blocked, pad, seen) * np.int64(multiplier)
        if lookback:
            hashes[:, lookback - 1] = rho
    return hashes
