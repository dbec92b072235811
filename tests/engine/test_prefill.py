"""How many tokens of a prompt are read at once."""

from dataclasses import replace

import pytest

from shoal.config.schema import ModelConfig
from shoal.engine.prefill import LARGEST_CHUNK, SHARE_OF_MEMORY, SMALLEST_CHUNK, activation_nbytes, chunk_tokens


@pytest.mark.parametrize("usable", [0, 1 << 20, 1 << 28, 1 << 30, 1 << 40])
def test_a_chunk_fits_its_share_of_the_memory_unless_it_is_the_smallest(config: ModelConfig, usable: int) -> None:
    wide = replace(config, dim=5120, n_heads=64, head_dim=512, moe_inter_dim=2304)
    chunk = chunk_tokens(wide, usable)
    assert SMALLEST_CHUNK <= chunk <= LARGEST_CHUNK
    assert chunk == SMALLEST_CHUNK or chunk * activation_nbytes(wide) <= SHARE_OF_MEMORY * usable
    if chunk < LARGEST_CHUNK:
        assert 2 * chunk * activation_nbytes(wide) > SHARE_OF_MEMORY * usable


def test_enough_memory_gives_the_largest_chunk(config: ModelConfig) -> None:
    assert chunk_tokens(config, 1 << 40) == LARGEST_CHUNK
