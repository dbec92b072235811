"""How many tokens of a prompt may be read at once."""

from dataclasses import replace

from shoal.plan.activations import activation_nbytes, activations
from shoal.plan.stored import Stored


def test_chunks_halve_from_the_largest(release: Stored) -> None:
    found = activations(release.config)
    assert found.token_nbytes == activation_nbytes(release.config)
    assert found.chunks[0] == 2048 and found.chunks[-1] == 64
    assert all(larger == 2 * smaller for larger, smaller in zip(found.chunks, found.chunks[1:], strict=False))


def test_a_wider_model_needs_more(release: Stored) -> None:
    wider = replace(release.config, dim=2 * release.config.dim)
    assert activation_nbytes(wider) > 1.2 * activation_nbytes(release.config)
