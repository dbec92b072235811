"""Pages of KV cache that any number of sequences share (spec §5b).

A page is written by the one sequence that refers to it, and read by all that do. A sequence that is dropped without
being released gives its pages back when anyone next asks for some.
"""

import threading
from collections import deque
from collections.abc import Iterable

import torch
from jaxtyping import UInt8
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.errors import CacheFullError, OptionError
from shoal.plan.page_layout import PAGE_TOKENS, lay_out_page

Page = UInt8[Tensor, "nbytes"]


class PagePool:
    """At most `pages` pages, or what `nbytes` hold; without either, as many as are asked for.

    Memory is asked for in slabs, the only one of a bounded pool or one that doubles what there is, and is the system's
    until a page is first written. Any thread may call.
    """

    def __init__(
        self,
        config: ModelConfig,
        plans: tuple[LayerPlan, ...],
        *,
        pages: int | None = None,
        nbytes: int | None = None,
        page_tokens: int = PAGE_TOKENS,
        expected: int = 1,
    ) -> None:
        assert pages is None or nbytes is None, (pages, nbytes)
        assert plans, "a page is laid out for layers"
        self.layout = lay_out_page(config, page_tokens)
        self.limit = pages if nbytes is None else nbytes // max(self.layout.nbytes, 1)
        if self.limit is not None and self.limit < 1:
            found = f"{nbytes:,} bytes" if nbytes is not None else f"{pages} pages"
            raise OptionError(f"the KV cache is {found}, expected at least a page of {self.layout.nbytes:,} bytes")
        self._references: list[int] = []  # by page; 0 for one that is free
        self._memory: list[Page] = []
        self._free: list[int] = []
        self._forgotten: deque[list[int]] = deque()
        self._lock = threading.Lock()
        self._grow(self.limit or max(expected, 1))

    @property
    def num_used(self) -> int:
        """How many pages sequences refer to, a shared one counting once."""
        with self._lock:
            self._collect()
            return len(self._memory) - len(self._free)

    @property
    def num_free(self) -> int | None:
        """How many pages can still be taken; None without a limit."""
        return None if self.limit is None else self.limit - self.num_used

    @property
    def nbytes(self) -> int:
        """Bytes of the pages in use."""
        return self.num_used * self.layout.nbytes

    def take(self) -> int:
        """A page that nobody else refers to; what it holds is undefined. Raises `CacheFullError` when there is none."""
        with self._lock:
            self._collect()
            if not self._free:
                if self.limit is not None:
                    raise CacheFullError(
                        f"all {self.limit:,} pages of the KV cache ({self.limit * self.layout.tokens:,} tokens) are in"
                        " use, expected one more",
                        hint="fewer or shorter requests at once, or more `--kv-memory`.",
                    )
                self._grow(len(self._memory))
            page_id = self._free.pop()
            self._references[page_id] = 1
            return page_id

    def share(self, page_ids: Iterable[int]) -> None:
        """Refer to each of these pages, which are in use, once more."""
        with self._lock:
            for page_id in page_ids:
                assert self._references[page_id] > 0, page_id
                self._references[page_id] += 1

    def give(self, page_ids: Iterable[int]) -> None:
        """Refer to each of these pages once less."""
        with self._lock:
            self._give(page_ids)

    def forget(self, page_ids: list[int]) -> None:
        """Give the pages later: a finalizer calls this, perhaps in the middle of any other method."""
        self._forgotten.append(page_ids)

    def references(self, page_id: int) -> int:
        """How many sequences refer to a page."""
        return self._references[page_id]

    def memory(self, page_id: int) -> Page:
        """The bytes of a page."""
        return self._memory[page_id]

    def _give(self, page_ids: Iterable[int]) -> None:
        for page_id in page_ids:
            assert self._references[page_id] > 0, page_id
            self._references[page_id] -= 1
            if not self._references[page_id]:
                self._free.append(page_id)

    def _collect(self) -> None:
        while self._forgotten:
            self._give(self._forgotten.popleft())

    def _grow(self, count: int) -> None:
        nbytes = self.layout.nbytes
        try:
            slab = torch.empty(count * nbytes, dtype=torch.uint8)
        except RuntimeError:
            raise CacheFullError(f"no memory for {count:,} pages of KV cache, {count * nbytes:,} bytes") from None
        first = len(self._memory)
        self._memory += slab.split(nbytes) if nbytes else [slab] * count
        self._references += [0] * count
        # The lowest is taken first, so that a slab is touched from its start.
        self._free += range(first + count - 1, first - 1, -1)
