"""Where an n-gram lives: the primes, offsets and multipliers of each Engram table (spec §6.1).

Everything is a Python integer, so nothing is rounded; multipliers that passed through a double
would address other rows without any error.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from shoal.config.engram_rows import check_rows, derive_primes
from shoal.config.schema import ModelConfig
from shoal.errors import EngramError

__all__ = ["EngramLayout", "LayerTables", "check_rows", "derive_layout", "derive_multipliers", "derive_primes"]

INT64_MAX = 2**63 - 1
_SEED_PER_LAYER = 10007


@dataclass(frozen=True)
class LayerTables:
    """The hash of one Engram layer. Column `(ngram - 2) * heads + head` is `primes[ngram - 2][head]`.

    `primes` is [n-gram from 2][head], `multipliers` has one odd integer per lookback from 0.
    """

    layer_id: int
    primes: tuple[tuple[int, ...], ...]
    multipliers: tuple[int, ...]

    @cached_property
    def buckets(self) -> tuple[int, ...]:
        """The bucket count of each column, in column order."""
        return tuple(prime for heads in self.primes for prime in heads)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The table row of each column's bucket 0."""
        return tuple(accumulate(self.buckets, initial=0))[:-1]

    @property
    def rows(self) -> int:
        """Rows of the table: the columns' buckets end to end."""
        return sum(self.buckets)

    @property
    def history_length(self) -> int:
        """How many earlier tokens the longest n-gram reads."""
        return len(self.multipliers) - 1


@dataclass(frozen=True)
class EngramLayout:
    """Every Engram table of a model, in `engram_layer_ids` order.

    `row_width` is the elements of a row, `history_length` the earlier tokens a sequence must remember.
    """

    layers: tuple[LayerTables, ...]
    row_width: int
    history_length: int

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows of each table."""
        return tuple(layer.rows for layer in self.layers)

    def layer(self, layer_id: int) -> LayerTables:
        """The tables of backbone layer `layer_id`, which must be an Engram layer."""
        return next(layer for layer in self.layers if layer.layer_id == layer_id)


def derive_layout(config: ModelConfig) -> EngramLayout:
    """The layout that `config` implies; its declared row counts are not looked at (`check_rows` is)."""
    layers = tuple(
        LayerTables(layer_id, primes, derive_multipliers(config, layer_id))
        for layer_id, primes in zip(config.engram_layer_ids, derive_primes(config), strict=True)
    )
    return EngramLayout(layers, config.engram_head_dim, config.engram_max_ngram_size - 1)


def derive_multipliers(config: ModelConfig, layer_id: int) -> tuple[int, ...]:
    """One odd multiplier per lookback, below 2^63 even after times the largest compressed id (spec §6.1)."""
    import numpy as np

    vocab = config.engram_compressed_vocab_size
    bound = INT64_MAX // vocab // 2 if vocab > 0 else 0
    if bound < 1:
        raise EngramError(f"`engram_compressed_vocab_size` is {vocab}, wanted 1 to {INT64_MAX // 2}")
    generator = np.random.default_rng(_SEED_PER_LAYER * layer_id)
    draws = generator.integers(0, bound, size=config.engram_max_ngram_size, dtype=np.int64)
    multipliers = tuple(2 * int(draw) + 1 for draw in draws)
    assert max(multipliers) * (vocab - 1) <= INT64_MAX, (multipliers, vocab)
    return multipliers
