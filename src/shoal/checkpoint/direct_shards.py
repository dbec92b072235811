"""The shards of a checkpoint, read past the page cache: each opened when it is first needed."""

import threading
from pathlib import Path

from shoal.checkpoint.direct_file import DirectFile, Notice, ReadProgress
from shoal.checkpoint.extents import Extent
from shoal.checkpoint.said_once import SaidOnce
from shoal.checkpoint.shards import Checkpoint


class DirectShards:
    """Reads extents of a checkpoint into memory, until `close`; from any thread.

    `notice` is told once what is true of a whole directory. With `through_page_cache` the shards are read through it,
    and it keeps them.
    """

    def __init__(
        self, checkpoint: Checkpoint, notice: Notice | None = None, *, through_page_cache: bool = False
    ) -> None:
        self.checkpoint, self.through_page_cache = checkpoint, through_page_cache
        self._say = SaidOnce(notice)
        self._files = dict[Path, DirectFile]()
        self._opening = threading.Lock()

    def read(self, extent: Extent, room: memoryview, progress: ReadProgress | None = None) -> None:
        """Fills the extent's place in `room`, which begins at a page. As of `DirectFile.read`."""
        into = room[extent.place : extent.place + extent.nbytes]
        self.file(extent).read(into, extent.start, extent.wanted, progress)

    def file(self, extent: Extent) -> DirectFile:
        """The shard of an extent, opened when it is first asked for."""
        with self._opening:
            if extent.path not in self._files:
                self._files[extent.path] = self.checkpoint.open_direct(
                    extent.names[0], self._say, through_page_cache=self.through_page_cache
                )
            return self._files[extent.path]

    def close(self) -> None:
        """Closes what was opened; no read may be under way."""
        for file in self._files.values():
            file.close()
        self._files.clear()
