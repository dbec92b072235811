"""Reads dense weights into memory as they are stored, refusing NaN."""

from collections.abc import Callable

import torch
from torch import Tensor

from shoal.checkpoint.shards import Checkpoint
from shoal.errors import TensorError
from shoal.formats.float8 import E4M3_NAN, E8M0_NAN
from shoal.ops.weights import Float4Weight, Float8Weight

# A check of a whole matrix at once would need two more of its size in memory, and run at the memory's speed.
CODES_AT_ONCE = 1 << 20
FLOAT32_INFINITY = 0x7F80_0000

Progress = Callable[[int], None]
"""Takes the bytes just read."""


class WeightReader:
    """Copies of tensors by name. What it has read is in `read`: name → bytes."""

    def __init__(self, checkpoint: Checkpoint, progress: Progress | None = None) -> None:
        self.checkpoint = checkpoint
        self.progress = progress
        self.read: dict[str, int] = {}

    def tensor(self, name: str) -> Tensor:
        """A BF16 or F32 tensor, or raw codes."""
        tensor = self.checkpoint.read(name, self.progress)
        self.read[name] = tensor.nbytes
        if tensor.dtype == torch.float32 and _any_has_all(tensor.view(torch.int32), FLOAT32_INFINITY):
            raise TensorError(f"`{name}` holds a value that is not finite in `{self._shard(name)}`")
        return tensor

    def float8(self, name: str) -> Float8Weight:
        """`name.weight` in E4M3 with the scales of its 32×32 tiles."""
        codes, scales = self.tensor(f"{name}.weight"), self.tensor(f"{name}.scale")
        if _any_has_all(codes, E4M3_NAN):
            raise TensorError(f"`{name}.weight` holds a NaN code in `{self._shard(f'{name}.weight')}`")
        refuse_nan_scales(scales, f"{name}.scale", self._shard(f"{name}.scale"))
        return Float8Weight(codes, scales)

    def _shard(self, name: str) -> str:
        return self.checkpoint.entry(name).path.name


def _any_has_all(codes: Tensor, bits: int) -> bool:
    """Whether any of `codes` (integers) has all of `bits` set, as NaN (or infinity) has those of its exponent.

    Two pieces of memory serve all parts: new ones for each, freed among weights that stay, tore holes of 0.8 GB.
    """
    parts = codes.view(-1).split(CODES_AT_ONCE)
    masked = torch.empty_like(parts[0])
    found = torch.empty(masked.shape, dtype=torch.bool)
    for part in parts:
        size = len(part)
        torch.bitwise_and(part, bits, out=masked[:size])
        torch.eq(masked[:size], bits, out=found[:size])
        if bool(found[:size].any()):
            return True
    return False


def mapped_float4(checkpoint: Checkpoint, name: str) -> Float4Weight:
    """Views of `name.weight` and `name.scale` in the mapped shard; nothing is read yet."""
    return Float4Weight(checkpoint.tensor(f"{name}.weight"), checkpoint.tensor(f"{name}.scale"))


def refuse_nan_scales(scales: Tensor, name: str, shard: str) -> None:
    """TensorError when an E8M0 scale is NaN (code 255)."""
    # numpy's maximum: torch would wake threads of its own in every thread that reads experts.
    if scales.numel() and int(scales.numpy().max()) == E8M0_NAN:
        place = (scales == E8M0_NAN).nonzero()[0].tolist()
        raise TensorError(f"`{name}` is NaN (code 255) at {place} in `{shard}`, expected a power of two")
