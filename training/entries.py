"""Compressed entries put where the window's keys are.

A layer that has learned to copy within the window asks for what its own keys hold. Entries come from an earlier layer's
input and another projection, so its questions find nothing there, and no gradient says where to go.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from training.batches import Batch
from training.model import Miniature

_RIDGE = 1e-3


@torch.no_grad()
def entries_from_keys(model: Miniature, batches: Iterable[Batch]) -> None:
    """Each compressor of ratio 1 becomes the least-squares image of its last reader's window keys."""
    config, weights = model.config, model.weights
    inputs = [model.forward(batch.ids, batch.rows, sparse=False).inputs for batch in batches]
    for place, source in enumerate(config.kv_source_layers):
        if config.compress_ratios[source] > 1:
            continue  # an entry of several tokens is no token's key
        reader = _last_reader(config.kv_source_layers, source, config.n_layers)
        x = torch.cat([layers[source] for layers in inputs])
        keys = torch.cat([layers[reader] for layers in inputs]) @ weights.stored()["wkv"][reader].T
        weights.get_parameter("compressor_wkv")[place] = _least_squares(x, keys)
        weights.get_parameter("compressor_norm")[place] = weights.get_parameter("kv_norm")[reader]


def _last_reader(sources: tuple[int, ...], source: int, layers: int) -> int:
    return min((later for later in sources if later > source), default=layers) - 1


def _least_squares(x: Tensor, y: Tensor) -> Tensor:
    """W [y, x] of the least |x·Wᵀ - y|², with a little weight on staying small; x and y are [tokens, dim]."""
    gram = x.T @ x + _RIDGE * len(x) * torch.eye(x.shape[1])
    solved: Tensor = torch.linalg.solve(gram, x.T @ y)
    return solved.T
