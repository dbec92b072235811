"""How many rows each Engram table has: primes by one upward scan, and their sums (spec §6.1)."""

from itertools import islice

from shoal.config.primes import primes_from
from shoal.config.schema import ModelConfig
from shoal.errors import EngramError

_MAX_COLUMNS = 4096


def derive_primes(config: ModelConfig) -> list[tuple[tuple[int, ...], ...]]:
    """Primes [layer][n-gram from 2][head]: one upward scan, never reused across layers.

    Raises EngramError for sizes that give no column, or too many.
    """
    if not config.has_engram:
        return []
    heads, ngrams = config.engram_n_heads, config.engram_max_ngram_size - 1
    columns = heads * ngrams * len(config.engram_layer_ids)
    if heads < 1 or ngrams < 1 or columns > _MAX_COLUMNS:
        raise EngramError(
            f"`engram_n_heads` {heads} and `engram_max_ngram_size` {ngrams + 1} give {columns} columns, "
            f"wanted at least one head, 2-grams or longer, and at most {_MAX_COLUMNS} columns"
        )
    scan = primes_from(config.engram_vocab_size)
    return [tuple(tuple(islice(scan, heads)) for _ in range(ngrams)) for _ in config.engram_layer_ids]


def check_rows(config: ModelConfig) -> None:
    """Raise `EngramError` unless the declared rows are the derived ones, neither smaller nor larger."""
    declared = list(config.engram_num_embeddings)
    derived = [sum(sum(heads) for heads in primes) for primes in derive_primes(config)]
    if declared != derived:
        raise EngramError(
            f"`engram_num_embeddings` disagrees with the primes from {config.engram_vocab_size}: "
            f"declared={declared} derived={derived}",
            hint="`engram_n_heads`, `engram_max_ngram_size` or `engram_vocab_size` is another model's, "
            "or the table was cut.",
        )
