"""The bandwidth probe for tensors."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

if TYPE_CHECKING:
    from shoal._native import Kernels as Native


def stream_read_torch(memory: UInt8[Tensor, "nbytes"], starts: Int64[Tensor, "count"], nbytes: int) -> int:
    """The 64-bit little-endian words of the stretches of `nbytes` at `starts`, added modulo 2^64.

    A stretch's last word is filled up with zeros. The sum only shows that every byte was read.
    """
    total = 0
    for start in starts.tolist():
        stretch = memory[start : start + nbytes]
        whole = torch.cat([stretch, stretch.new_zeros(-nbytes % 8)]).view(torch.int64)
        total += int(whole.sum())
    return total % 2**64


class ProbeKernels:
    """`stream_read` on the kernels' threads."""

    native: "Native"

    def stream_read(self, memory: UInt8[Tensor, "nbytes"], starts: Int64[Tensor, "count"], nbytes: int) -> int:
        """`stream_read_torch`, as fast as this machine's memory gives bytes."""
        assert memory.dtype == torch.uint8 and memory.is_contiguous(), (memory.dtype, memory.stride())
        assert starts.dtype == torch.int64 and nbytes >= 0, (starts.dtype, nbytes)
        starts = starts.contiguous()
        if starts.numel():
            first, last = int(starts.min()), int(starts.max())
            assert first >= 0 and last + nbytes <= memory.numel(), (first, last, nbytes, memory.numel())
        return self.native.stream_read(memory.data_ptr(), starts.data_ptr(), starts.numel(), nbytes)
