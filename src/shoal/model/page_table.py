"""The pages of one sequence, in order; its own until it is forked, then shared until one of both writes."""

import weakref

import torch
from jaxtyping import Int64
from torch import Tensor

from shoal.errors import CacheFullError
from shoal.model.page_pool import Page, PagePool

SMALLEST_ROOM = 16


class PageTable:
    """`ids` of the pages and, for the kernels, `addresses`: an int64 tensor with spare room, updated in place."""

    def __init__(self, pool: PagePool) -> None:
        self.pool = pool
        self.ids: list[int] = []
        self.memory: list[Page] = []
        self.addresses: Int64[Tensor, "room"] = torch.zeros(SMALLEST_ROOM, dtype=torch.int64)
        # Holds the list, not the table: what is in it when the table is gone was never given back.
        weakref.finalize(self, pool.forget, self.ids).atexit = False

    def writable(self, index: int) -> Page:
        """Page `index`, at most the one after the last, referred to by no other table: a shared one is copied first.

        Raises `CacheFullError`, having changed nothing.
        """
        if index < len(self.ids):
            if self.pool.references(self.ids[index]) > 1:
                self._copy(index)
        else:
            assert index == len(self.ids), (index, len(self.ids))
            self._add(self.pool.take())
        return self.memory[index]

    def reserve(self, start: int, end: int) -> None:
        """Make the pages from `start` to `end` writable. Raises `CacheFullError`, having added none."""
        before = len(self.ids)
        try:
            for index in range(min(start, before), end):
                self.writable(index)
        except CacheFullError:
            self.truncate(before)
            raise

    def truncate(self, count: int) -> None:
        """Give back all pages from `count` on."""
        if count < len(self.ids):
            given = self.ids[count:]
            del self.ids[count:], self.memory[count:]
            self.pool.give(given)

    def fork(self) -> "PageTable":
        """Another table of the same pages."""
        other = PageTable(self.pool)
        self.pool.share(self.ids)
        other.ids += self.ids
        other.memory, other.addresses = list(self.memory), self.addresses.clone()
        return other

    def _add(self, page_id: int) -> None:
        index, memory = len(self.ids), self.pool.memory(page_id)
        if index == self.addresses.shape[0]:
            self.addresses = torch.cat((self.addresses, torch.zeros_like(self.addresses)))
        self.addresses[index] = memory.data_ptr()
        self.ids.append(page_id)
        self.memory.append(memory)

    def _copy(self, index: int) -> None:
        page_id, old = self.pool.take(), self.ids[index]
        memory = self.pool.memory(page_id)
        memory.copy_(self.memory[index])
        self.ids[index], self.memory[index], self.addresses[index] = page_id, memory, memory.data_ptr()
        self.pool.give([old])
