"""The routed experts in training: tokens sorted by expert, each expert's matrices applied to its own (spec §4.6)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shoal.config.schema import ModelConfig


@dataclass(frozen=True)
class Dispatch:
    """Who goes where: `experts` int64 [tokens, active], the rows of all assignments by expert, and the way back."""

    experts: Tensor
    weights: Tensor
    order: Tensor
    back: Tensor
    counts: list[int]


def route(scores: Tensor, bias: Tensor, config: ModelConfig) -> Dispatch:
    """The best experts by score and bias; the weights are of the scores alone."""
    chosen = (scores.detach() + bias).topk(config.n_activated_experts, dim=-1).indices
    weights = scores.gather(1, chosen)
    weights = float(config.route_scale) * weights / (weights.sum(-1, keepdim=True) + 1e-20)
    order = chosen.flatten().argsort(stable=True)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    counts = torch.bincount(chosen.flatten(), minlength=config.n_routed_experts).tolist()
    return Dispatch(chosen, weights.flatten()[order], order, back, counts)


def by_expert(x: Tensor, matrices: Tensor, counts: list[int]) -> Tensor:
    """Each expert's rows of x times its matrix: [rows, outputs]."""
    parts = zip(x.split(counts), matrices.unbind(0), strict=True)
    return torch.cat([part @ matrix.T for part, matrix in parts])
