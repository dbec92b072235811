"""Memory of this process alone. Standard library only."""

import ctypes
import mmap
import os


def private_memory(nbytes: int) -> mmap.mmap:
    """Zeros, which take memory once they are written to. Raises OSError where the system refuses so much.

    Shared memory, which `mmap` makes unless told otherwise, has pages of 2 MiB only where a second setting of the
    system allows them, and hardly any allows.
    """
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def forget(address: int, nbytes: int) -> None:
    """Gives whole pages of private memory back to the system; they read as zeros after that. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), mmap.MADV_DONTNEED) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
