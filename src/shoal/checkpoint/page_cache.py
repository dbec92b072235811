"""What of a mapped file the page cache holds, as the kernel says it."""

import ctypes
import mmap


def cached_pages(address: int, nbytes: int) -> int:
    """How many pages of the mapped bytes are in memory; 0 where the system does not say."""
    start = address // mmap.PAGESIZE * mmap.PAGESIZE
    length = address + nbytes - start
    answer = (ctypes.c_ubyte * (-(-length // mmap.PAGESIZE)))()
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "mincore"):
        return 0
    if libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(length), answer) != 0:
        return 0
    # The lowest bit says it; the others mean nothing.
    return bytes(answer).translate(_LOWEST_BIT).count(1)


_LOWEST_BIT = bytes(value & 1 for value in range(256))
