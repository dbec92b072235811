"""Muon for the matrices, Adam for everything else."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from training.weights import FLOAT4, FLOAT8, TABLES

MUON = (*FLOAT8, *FLOAT4, "compressor_wkv", "compressor_wgate", "index_wk")
MOMENTUM = 0.95
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_STEPS = 5


@dataclass(frozen=True)
class Rates:
    """Learning rates at full speed."""

    muon: float = 0.02
    adam: float = 0.003
    coefficients: float = 0.001  # of mixes, routers and index heads
    tables: float = 0.01


class Muon(torch.optim.Optimizer):
    """Momentum, then the nearest orthogonal matrix of it, for stacks of matrices [..., outputs, inputs]."""

    def __init__(self, parameters: list[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                momentum = state["momentum"]
                momentum.lerp_(parameter.grad, 1 - MOMENTUM)
                update = orthogonal(parameter.grad.lerp(momentum, MOMENTUM))
                gain = max(1.0, parameter.shape[-2] / parameter.shape[-1]) ** 0.5
                parameter.add_(update, alpha=-group["lr"] * gain)


def orthogonal(matrices: Tensor) -> Tensor:
    """U·Vᵀ of U·S·Vᵀ, nearly: five Newton-Schulz steps on matrices [..., rows, columns]."""
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.reshape(-1, *matrices.shape[-2:])
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).reshape(matrices.shape)


def optimizers(weights: nn.Module, rates: Rates) -> list[torch.optim.Optimizer]:
    """Both optimisers; each group carries its full rate as `full`."""
    named = dict(weights.named_parameters())
    matrices = [value for name, value in named.items() if name in MUON]
    tables = [value for name, value in named.items() if name in TABLES]
    small = [value for name, value in named.items() if name.startswith("hc_") or name in ("gate", "index_weights")]
    taken = {id(value) for value in (*matrices, *tables, *small)}
    others = [value for value in named.values() if id(value) not in taken]
    groups = [
        {"params": others, "lr": rates.adam},
        {"params": small, "lr": rates.coefficients},
        {"params": tables, "lr": rates.tables},
    ]
    found = [Muon(matrices, rates.muon), torch.optim.Adam(groups, betas=(0.9, 0.98), eps=1e-10, fused=True)]
    for optimizer in found:
        for group in optimizer.param_groups:
            group["full"] = group["lr"]
    return found


def set_rate(found: list[torch.optim.Optimizer], share: float) -> None:
    """Run at `share` of the full rates."""
    for optimizer in found:
        for group in optimizer.param_groups:
            group["lr"] = group["full"] * share
