"""Muon's orthogonalisation, and that every parameter has an optimiser."""

import torch

from training.optimizer import orthogonal


def test_every_singular_value_comes_near_one() -> None:
    matrices = torch.randn(5, 64, 128, generator=torch.Generator().manual_seed(0))
    singular = torch.linalg.svdvals(orthogonal(matrices))
    assert singular.min() > 0.6 and singular.max() < 1.3


def test_a_tall_matrix_is_the_wide_one_turned() -> None:
    matrix = torch.randn(128, 64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(orthogonal(matrix), orthogonal(matrix.mT).mT, atol=1e-6)
