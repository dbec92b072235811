"""Memory of this process alone. Standard library only."""

import mmap


def private_memory(nbytes: int) -> mmap.mmap:
    """Zeros, which take memory once they are written to. Raises OSError where the system refuses so much.

    Shared memory, which `mmap` makes unless told otherwise, has pages of 2 MiB only where a second setting of the
    system allows them, and hardly any allows.
    """
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
