"""How far two tensors of one shape are apart."""

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor


@dataclass(frozen=True)
class Distance:
    """`relative` is ‖a − b‖ / ‖b‖ in L2, `largest` the largest |a − b|, `share` the part of elements that differ."""

    relative: float
    largest: float
    share: float

    @property
    def is_zero(self) -> bool:
        """Whether every element is the same, sign of zero included."""
        return self.share == 0.0


def distance(a: Tensor, b: Tensor) -> Distance:
    """The distance of `a` from `b`, of the same shape. Equal infinities are 0 apart, and so are two NaN.

    Floats of one dtype are the same only if their bits are; else values are compared.
    """
    assert a.shape == b.shape, (a.shape, b.shape)
    if a.numel() == 0:
        return Distance(0.0, 0.0, 0.0)
    differing = int(differs(a, b).sum())
    if not differing:
        return Distance(0.0, 0.0, 0.0)
    x, y = a.double(), b.double()
    error = torch.where((x == y) | (x.isnan() & y.isnan()), torch.zeros_like(x), x - y).abs()
    error = error.nan_to_num(nan=inf, posinf=inf)
    size = float(y.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).norm())
    far = float(error.norm())
    relative = far / size if size else (inf if far else 0.0)
    return Distance(relative, float(error.max()), differing / a.numel())


def differs(a: Tensor, b: Tensor) -> Tensor:
    """Which elements of two tensors of one shape are not the same: bool, of that shape."""
    values = a.double().ne(b.double())
    both_nan = a.double().isnan() & b.double().isnan()
    differs = values & ~both_nan
    if a.dtype == b.dtype and a.is_floating_point():
        differs |= torch.signbit(a).ne(torch.signbit(b)) & ~both_nan
    return differs
