"""Tensors on their way from the shards into memory, read and looked at by threads of their own while others wait.

All of them get one piece of memory, in which each extent has its place from the start: nothing is ever there twice.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait

from torch import Tensor

from shoal.checkpoint.direct_shards import DirectShards
from shoal.checkpoint.extents import Extent, find_extents
from shoal.checkpoint.shards import shaped
from shoal.weights.page_room import page_room

# A disk: one looks at what it has read while the other reads.
THREADS = 2
# Between two looks at how far the others are.
TICK_SECONDS = 0.1

Brought = dict[str, Tensor]


class ReadAhead:
    """The tensors `names`, begun to be read at once, in the order of the files and from all disks at the same time.

    `look` is called on each by the thread that has read it; what it raises is raised by `take`.
    """

    def __init__(self, shards: DirectShards, names: Sequence[str], look: Callable[[str, Tensor], None]) -> None:
        """Raises OptionError where the system refuses the memory."""
        self._shards, self._look = shards, look
        self._entries = {name: shards.checkpoint.entry(name) for name in names}
        extents = find_extents(list(self._entries.values()))
        self._places, self._room = extents.places, page_room(extents.nbytes, "weights")
        self._counting = threading.Lock()
        self._arrived, self._is_closed = 0, False
        self._coming = self._start(extents.extents)

    @property
    def arrived(self) -> int:
        """Bytes of the tensors read so far."""
        return self._arrived

    def take(self, name: str, waiting: Callable[[], None]) -> Tensor:
        """Waits for the tensor, calling `waiting` now and then. Raises what went wrong, with whichever tensor."""
        coming = self._coming[name]
        while not wait([coming], TICK_SECONDS).done:
            waiting()
            for other in self._coming.values():
                if other.done():
                    other.result()
        return coming.result()[name]

    def close(self) -> None:
        """Ends what is under way, and returns when nothing is."""
        self._is_closed = True
        for coming in self._coming.values():
            coming.cancel()
        wait(self._coming.values())

    def _start(self, extents: Sequence[Extent]) -> dict[str, Future[Brought]]:
        pools, coming = dict[int, ThreadPoolExecutor](), dict[str, Future[Brought]]()
        for extent in extents:
            disk = self._shards.checkpoint.device(extent.names[0])
            if disk not in pools:
                pools[disk] = ThreadPoolExecutor(THREADS, "read-ahead")
            coming |= dict.fromkeys(extent.names, pools[disk].submit(self._bring, extent))
        for pool in pools.values():
            # Its threads end when all is read.
            pool.shutdown(wait=False)
        return coming

    def _bring(self, extent: Extent) -> Brought:
        left = sum(self._entries[name].nbytes for name in extent.names)

        def count(nbytes: int) -> None:
            nonlocal left
            if self._is_closed:
                raise CancelledError
            # What lies between tensors counts for none of them.
            now = min(nbytes, left)
            left -= now
            with self._counting:
                self._arrived += now

        self._shards.read(extent, self._room.numpy().data, count)
        brought = {name: self._tensor(name) for name in extent.names}
        for name, tensor in brought.items():
            self._look(name, tensor)
        return brought

    def _tensor(self, name: str) -> Tensor:
        entry, place = self._entries[name], self._places[name]
        return shaped(self._room[place : place + entry.nbytes], entry)
