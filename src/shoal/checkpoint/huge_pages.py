"""Memory that a processor reads with few page-table walks."""

import mmap

import numpy as np
import torch

from shoal.checkpoint.private_memory import private_memory

HUGE_PAGE_NBYTES = 1 << 21


def room_for(nbytes: int) -> torch.Tensor:
    """uint8 [nbytes] that means nothing yet, in pages of 2 MiB where it fills them and the system has them."""
    if nbytes < HUGE_PAGE_NBYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(nbytes, dtype=torch.uint8)
    mapping = private_memory(nbytes + HUGE_PAGE_NBYTES)
    room = np.frombuffer(mapping, dtype=np.uint8)
    start = -room.ctypes.data % HUGE_PAGE_NBYTES
    # Whole pages only: the rest would take a page of 2 MiB for a few bytes.
    mapping.madvise(mmap.MADV_HUGEPAGE, start, nbytes // HUGE_PAGE_NBYTES * HUGE_PAGE_NBYTES)
    return torch.from_numpy(room[start : start + nbytes])
