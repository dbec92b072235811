"""Reads dense weights into memory as they are stored, refusing NaN."""

from collections.abc import Callable, Sequence
from types import TracebackType

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shoal.checkpoint.direct_file import Notice
from shoal.checkpoint.direct_shards import DirectShards
from shoal.checkpoint.shards import Checkpoint
from shoal.errors import TensorError
from shoal.formats.float8 import E4M3_NAN, E8M0_NAN
from shoal.ops.weights import Float4Weight, Float8Weight
from shoal.weights.read_ahead import ReadAhead

# A check of a whole matrix at once would need another of its size in memory, and run at the memory's speed.
CODES_AT_ONCE = 1 << 20
FLOAT32_INFINITY = 0x7F80_0000

Progress = Callable[[int], None]
"""Takes the bytes just read."""


class WeightReader:
    """Tensors by name, read past the page cache and held once. What was taken is in `read`: name → bytes.

    For one caller at a time, until `close`; what it gave stays. With `through_page_cache` it reads through it, which is
    faster where the cache has the files, and takes their memory once more where nothing else wants it.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        progress: Progress | None = None,
        notice: Notice | None = None,
        *,
        through_page_cache: bool = False,
    ) -> None:
        """`progress` is called by the caller's own thread."""
        self.checkpoint, self.progress = checkpoint, progress
        self.read: dict[str, int] = {}
        self._shards = DirectShards(checkpoint, notice, through_page_cache=through_page_cache)
        self._under_way = list[ReadAhead]()
        self._expected = dict[str, ReadAhead]()
        self._told = 0

    def __enter__(self) -> "WeightReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends what is under way. The memory of what was read is its tensors' alone from now on."""
        for ahead in self._under_way:
            ahead.close()
        # They refer to this reader, whose tensors would stay until the garbage collector finds the circle.
        self._under_way.clear()
        self._expected.clear()
        self._shards.close()

    def expect(self, names: Sequence[str], *, refuse_nan: bool = True) -> None:
        """Begins to read tensors that will be asked for, each as often as it is named here."""
        ahead = ReadAhead(self._shards, names, self._refuse_nan if refuse_nan else _look_at_nothing)
        self._under_way.append(ahead)
        self._expected |= dict.fromkeys(names, ahead)

    def tensor(self, name: str) -> Tensor:
        """A BF16 or F32 tensor, or codes, waited for. Raises TensorError where F32, E4M3 or E8M0 is no number."""
        if name not in self._expected:
            self.expect([name])
        tensor = self._expected.pop(name).take(name, self._tell)
        self._tell()
        self.read[name] = tensor.nbytes
        return tensor

    def float8(self, name: str) -> Float8Weight:
        """`name.weight` in E4M3 with the scales of its 32×32 tiles."""
        return Float8Weight(self.tensor(f"{name}.weight"), self.tensor(f"{name}.scale"))

    def _tell(self) -> None:
        arrived = sum(ahead.arrived for ahead in self._under_way)
        if self.progress is not None and arrived > self._told:
            self.progress(arrived - self._told)
        self._told = arrived

    def _refuse_nan(self, name: str, tensor: Tensor) -> None:
        entry = self.checkpoint.entry(name)
        if entry.dtype == "F8_E8M0":
            refuse_nan_scales(tensor, name, entry.path.name)
        elif entry.dtype == "F8_E4M3" and any_has_all(tensor.numpy(), E4M3_NAN):
            raise TensorError(f"`{name}` holds a NaN code in `{entry.path.name}`")
        elif entry.dtype == "F32" and any_has_all(tensor.view(torch.int32).numpy(), FLOAT32_INFINITY):
            raise TensorError(f"`{name}` holds a value that is not finite in `{entry.path.name}`")


def _look_at_nothing(_name: str, _tensor: Tensor) -> None:
    """For tensors whose rows are looked at when they are used."""


def any_has_all(codes: npt.NDArray[np.uint8] | npt.NDArray[np.int32], bits: int) -> bool:
    """Whether any of `codes` has all of `bits`, none of them the sign, set, as NaN (or infinity) has its exponent's.

    In numpy, which wakes no threads of its own; in parts, for which a cache is room enough.
    """
    flat = codes.reshape(-1)
    masked = np.empty(min(len(flat), CODES_AT_ONCE), flat.dtype)
    for start in range(0, len(flat), CODES_AT_ONCE):
        part = flat[start : start + CODES_AT_ONCE]
        np.bitwise_and(part, bits, out=masked[: len(part)])
        if int(masked[: len(part)].max()) == bits:
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
