"""The same tensors in another number of shards."""

from collections.abc import Sequence

from shoal.checkpoint.header import DTYPE_BITS
from shoal.checkpoint.index import SHARD_SUFFIX
from shoal.checkpoint.inventory import TensorSpec
from shoal.checkpoint.shard_layout import PlacedTensor, ShardLayout
from shoal.errors import OptionError


def reshard(shards: Sequence[ShardLayout], count: int) -> list[ShardLayout]:
    """`count` shards of about equal size that hold the tensors of `shards` in their order, wide elements first in each.

    Raises `OptionError` unless every shard gets a tensor.
    """
    specs = [tensor.spec for shard in shards for tensor in shard.tensors]
    if not 1 <= count <= len(specs):
        raise OptionError(f"`shards` is {count}, expected 1 to {len(specs):,}, the number of tensors")
    names = [f"model-{number:05}-of-{count:05}{SHARD_SUFFIX}" for number in range(1, count + 1)]
    return [ShardLayout(name, _place(part)) for name, part in zip(names, _split(specs, count), strict=True)]


def _split(specs: Sequence[TensorSpec], count: int) -> list[list[TensorSpec]]:
    """A part ends where its share of all bytes is reached, or earlier to leave every later part a tensor."""
    total = sum(spec.nbytes for spec in specs)
    parts: list[list[TensorSpec]] = [[]]
    filled = 0
    for place, spec in enumerate(specs):
        is_full = filled * count >= total * len(parts) or len(specs) - place <= count - len(parts)
        if parts[-1] and is_full and len(parts) < count:
            parts.append([])
        parts[-1].append(spec)
        filled += spec.nbytes
    return parts


def _place(specs: Sequence[TensorSpec]) -> tuple[PlacedTensor, ...]:
    placed, start = [], 0
    # As in the release, where every tensor is aligned for it.
    for spec in sorted(specs, key=lambda spec: -DTYPE_BITS[spec.dtype]):
        placed.append(PlacedTensor(spec, start, start + spec.nbytes))
        start += spec.nbytes
    return tuple(placed)
