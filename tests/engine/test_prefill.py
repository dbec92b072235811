"""How many tokens of a prompt may be read at once."""

from dataclasses import replace

from shoal.config.schema import ModelConfig
from shoal.engine.prefill import activation_nbytes, activations


def test_chunks_halve_from_the_largest(config: ModelConfig) -> None:
    found = activations(config)
    assert found.token_nbytes == activation_nbytes(config)
    assert found.chunks[0] == 2048 and found.chunks[-1] == 64
    assert all(larger == 2 * smaller for larger, smaller in zip(found.chunks, found.chunks[1:], strict=False))


def test_a_wider_model_needs_more(config: ModelConfig) -> None:
    assert activation_nbytes(replace(config, dim=2 * config.dim)) > 1.2 * activation_nbytes(config)
