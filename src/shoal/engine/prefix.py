"""The prefix cache: sequences that were computed once, to go on from when a prompt begins alike.

A snapshot is a fork of a sequence at some length, never written to again; who hits it gets a fork of its own. A hit is
exact to the token and shorter than the prompt, so that there is a token to compute.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from shoal.checkpoint.direct_file import Notice
from shoal.checkpoint.said_once import SaidOnce
from shoal.engine.prefix_bytes import SharedBytes
from shoal.engine.prefix_disk import DiskStatistics, PrefixDisk
from shoal.engine.prefix_lengths import worth_keeping
from shoal.engine.prefix_tree import Ids, Node, PrefixTree, as_ids
from shoal.engine.prefix_writer import PrefixWriter
from shoal.model.cache import SequenceCache

HIT_LIFE = 4
"""A snapshot that was hit lives so many times as long without use as one that never was."""

CLOSE_SECONDS = 30.0


@dataclass(frozen=True)
class PrefixStatistics:
    """Since the start: of `lookups` so many hits, which saved so many tokens; what was kept, refused and evicted.

    Now: `snapshots` of `nbytes` in memory, of `limit`; those on the disk, where there are any.
    """

    lookups: int
    hits: int
    saved_tokens: int
    kept: int
    refused: int
    evicted: int
    snapshots: int
    nbytes: int
    limit: int
    disk: DiskStatistics | None


@dataclass(eq=False)
class Snapshot:
    """A sequence that is kept: when it was last of use, how often it was hit, and who goes on from it now."""

    cache: SequenceCache
    used: int
    node: "Node[Snapshot] | None" = None
    hits: int = 0
    readers: "WeakSet[SequenceCache]" = field(default_factory=WeakSet)

    def fork(self) -> SequenceCache:
        """A sequence that goes on from here. The snapshot stays while it runs."""
        cache = self.cache.fork()
        self.readers.add(cache)
        return cache

    def age(self, now: int) -> float:
        """Who is oldest goes first."""
        return (now - self.used) / (HIT_LIFE if self.hits else 1)


class PrefixCache:
    """Snapshots of at most `limit` bytes in memory, and of what `disk` may hold on the disk.

    `new_cache` gives a sequence that has no token yet. Any thread may call.
    """

    def __init__(
        self,
        new_cache: Callable[[], SequenceCache],
        limit: int,
        disk: PrefixDisk | None = None,
        notice: Notice | None = None,
    ) -> None:
        self.limit, self._new_cache, self._disk, self._notice = limit, new_cache, disk, SaidOnce(notice)
        self._tree: PrefixTree[Snapshot] = PrefixTree()
        self._bytes = SharedBytes()
        self._lock = threading.RLock()
        self._now = 0
        self._lookups = self._hits = self._saved_tokens = self._kept = self._refused = self._evicted = 0
        self._writer = None if disk is None else PrefixWriter(self._write)
        self._is_closed = False

    def worth_keeping(self, num_tokens: int, marks: Iterable[int] = ()) -> Sequence[int]:
        """Lengths of a prompt of `num_tokens` at which to cut its chunks and to call `keep`."""
        return worth_keeping(num_tokens, marks)

    def find(self, ids: Sequence[int]) -> tuple[SequenceCache, int] | None:
        """The caller's own sequence of the longest proper beginning of `ids` that is kept, and its length."""
        wanted = as_ids(ids)
        with self._lock:
            self._now += 1
            self._lookups += 1
            held = next((node for node in reversed(self._tree.along(wanted)) if node.length < len(wanted)), None)
            cache = self._find_on_disk(wanted, 0 if held is None else held.length)
            if cache is None and held is not None and held.value is not None:
                cache = self._use(held.value)
            if cache is None:
                return None
            self._hits += 1
            self._saved_tokens += cache.length
            return cache, cache.length

    def keep(self, ids: Sequence[int], cache: SequenceCache, lasting: bool = True) -> None:
        """Remember a sequence that has seen exactly `ids`; it stays the caller's. What does not fit is not kept.

        Only what is `lasting` goes to the disk.
        """
        assert cache.length == len(ids), (cache.length, len(ids))
        with self._lock:
            if self._is_closed or not ids:
                return
            self._now += 1
            known = as_ids(ids)
            snapshot = self._held(known)
            if snapshot is None:
                snapshot = self._add(known, settled_fork(cache))
                self._kept += snapshot is not None
                self._refused += snapshot is None
            if snapshot is not None:
                snapshot.used = self._now
                if lasting and self._writer is not None:
                    self._writer.add(snapshot)

    def evict(self) -> bool:
        """Let the snapshot go that is worth least; False when all are in use."""
        return self._evict() is not None

    def make_room(self, nbytes: int) -> bool:
        """Let snapshots go until pages of `nbytes` are free that only they had; whether that could be."""
        while nbytes > 0:
            freed = self._evict()
            if freed is None:
                return False
            nbytes -= freed
        return True

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until all that shall be is on the disk, at most so long; whether it is."""
        return self._writer is None or self._writer.flush(seconds)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Write what waits for it, for at most so long, and give everything back. Nothing is found afterwards."""
        with self._lock:
            self._is_closed = True
        if self._writer is not None:
            self._writer.close(seconds)
        with self._lock:
            for node in list(self._tree):
                snapshot = node.value
                assert snapshot is not None
                # One that is being written ends with the process.
                if self._writer is None or self._writer.withdraw(snapshot):
                    self._remove(node, snapshot)
        if self._disk is not None:
            self._disk.close()

    def statistics(self) -> PrefixStatistics:
        """As of now."""
        with self._lock:
            return PrefixStatistics(
                self._lookups,
                self._hits,
                self._saved_tokens,
                self._kept,
                self._refused,
                self._evicted,
                sum(1 for _ in self._tree),
                self._bytes.nbytes,
                self.limit,
                None if self._disk is None else self._disk.statistics(),
            )

    def _held(self, ids: Ids) -> Snapshot | None:
        """The snapshot of exactly these tokens."""
        nodes = self._tree.along(ids)
        return nodes[-1].value if nodes and nodes[-1].length == len(ids) else None

    def _use(self, snapshot: Snapshot) -> SequenceCache:
        snapshot.used = self._now
        snapshot.hits += 1
        return snapshot.fork()

    def _add(self, ids: Ids, cache: SequenceCache) -> Snapshot | None:
        """None, and `cache` released, where there is no room even without all those that are not in use."""
        if cache.nbytes > self.limit:
            self._notice(
                f"prefixes that take more than {self.limit:,} bytes (`--prefix-memory`) are not kept: "
                "what begins like them is computed again"
            )
            cache.release()
            return None
        while self._bytes.nbytes + self._bytes.cost(cache) > self.limit:
            if not self.evict():
                cache.release()
                return None
        snapshot = Snapshot(cache, self._now)
        snapshot.node = self._tree.put(ids, snapshot)
        self._bytes.add(cache)
        return snapshot

    def _evict(self) -> int | None:
        """Bytes of pages that are free now; None when all snapshots are in use."""
        with self._lock:
            for node in sorted(self._tree, key=_age_at(self._now), reverse=True):
                snapshot = node.value
                assert snapshot is not None
                if not snapshot.readers and (self._writer is None or self._writer.withdraw(snapshot)):
                    freed = snapshot.cache.own_nbytes - snapshot.cache.fixed_nbytes
                    self._remove(node, snapshot)
                    self._evicted += 1
                    return freed
            return None

    def _remove(self, node: Node[Snapshot], snapshot: Snapshot) -> None:
        self._tree.remove(node)
        self._bytes.remove(snapshot.cache)
        snapshot.cache.release()

    def _find_on_disk(self, ids: Ids, above: int) -> SequenceCache | None:
        """The longest sequence in a file that is sound, in memory from now on if there is room."""
        if self._disk is None or self._is_closed:
            return None
        for file in self._disk.find(ids, above):
            cache = self._new_cache()
            if self._disk.load(file, ids, cache):
                # Forked first: where there is no room for both, the caller's is the only one.
                found = cache.fork()
                snapshot = self._add(ids[: file.length], cache)
                if snapshot is not None:
                    snapshot.hits = 1
                    snapshot.readers.add(found)
                return found
        return None

    def _write(self, snapshot: Snapshot) -> None:
        assert self._disk is not None and snapshot.node is not None
        with self._lock:
            ids = snapshot.node.ids()
        # Not evicted meanwhile: the writer says that it is at it.
        self._disk.write(ids, snapshot.cache.state())


def settled_fork(cache: SequenceCache) -> SequenceCache:
    """A fork that is as small as it can be: nothing to undo, no spare pages."""
    kept = cache.fork()
    kept.truncate(kept.length)
    kept.settle()
    return kept


def _age_at(now: int) -> Callable[[Node[Snapshot]], float]:
    def age(node: Node[Snapshot]) -> float:
        assert node.value is not None
        return node.value.age(now)

    return age
