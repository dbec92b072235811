"""Pages against a twin that shares nothing; what a pool counts, refuses and gets back."""

import gc
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from miniature import MINI
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.errors import CacheFullError, OptionError
from shoal.model.page_pool import PagePool
from shoal.model.page_table import PageTable
from shoal.plan.page_layout import PAGE_TOKENS, lay_out_page

CONFIG = load_config(MINI)
LIMIT = 6
Draw = st.DataObject


def pool_of(pages: int | None = None, page_tokens: int = 4, expected: int = 1) -> PagePool:
    return PagePool(CONFIG, plan_layers(CONFIG), pages=pages, page_tokens=page_tokens, expected=expected)


class PoolMachine(RuleBasedStateMachine):
    """Every table beside the list of what it wrote into its pages."""

    limit: int | None = LIMIT

    def __init__(self) -> None:
        super().__init__()
        self.pool = pool_of(self.limit)
        self.tables: list[tuple[PageTable, list[int]]] = []
        self.written = 0

    def distinct(self) -> set[int]:
        return {page_id for table, _ in self.tables for page_id in table.ids}

    @rule()
    def begin(self) -> None:
        self.tables.append((PageTable(self.pool), []))

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def write(self, data: Draw) -> None:
        table, twin = self.tables[data.draw(st.integers(0, len(self.tables) - 1))]
        index = data.draw(st.integers(0, len(twin)))
        is_mine = index < len(twin) and not any(
            table.ids[index] in other.ids for other, _ in self.tables if other is not table
        )
        before = list(table.ids)
        self.written += 1
        if not is_mine and len(self.distinct()) == self.limit:
            with pytest.raises(CacheFullError):
                table.writable(index)
            assert table.ids == before
            return
        table.writable(index).fill_(self.written % 256)
        twin[index : index + 1] = [self.written % 256]
        assert not is_mine or table.ids == before

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def fork(self, data: Draw) -> None:
        table, twin = self.tables[data.draw(st.integers(0, len(self.tables) - 1))]
        self.tables.append((table.fork(), list(twin)))

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def cut(self, data: Draw) -> None:
        table, twin = self.tables[data.draw(st.integers(0, len(self.tables) - 1))]
        count = data.draw(st.integers(0, len(twin)))
        table.truncate(count)
        del twin[count:]

    @precondition(lambda self: self.tables)
    @rule(data=st.data(), more=st.integers(1, 4))
    def reserve(self, data: Draw, more: int) -> None:
        table, twin = self.tables[data.draw(st.integers(0, len(self.tables) - 1))]
        if self.limit is not None and len(self.distinct()) + more > self.limit:
            with pytest.raises(CacheFullError):
                table.reserve(len(twin), len(twin) + more)
            return
        table.reserve(len(twin), len(twin) + more)
        for index in range(len(twin), len(twin) + more):
            table.memory[index].fill_(0)
            twin.append(0)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def forget(self, data: Draw) -> None:
        # What the finalizer does; here other references to the table may live on.
        table, _ = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
        self.pool.forgotten.append(list(table.ids))
        table.ids.clear()

    @invariant()
    def every_table_reads_what_it_wrote(self) -> None:
        for table, twin in self.tables:
            assert [int(page[0]) for page in table.memory] == [int(page[-1]) for page in table.memory] == twin
            assert table.addresses[: len(twin)].tolist() == [page.data_ptr() for page in table.memory]

    @invariant()
    def every_page_is_counted(self) -> None:
        ids = [page_id for table, _ in self.tables for page_id in table.ids]
        assert self.pool.num_used == len(set(ids))
        assert all(self.pool.references(page_id) == ids.count(page_id) for page_id in set(ids))
        assert self.pool.num_free == (None if self.limit is None else self.limit - len(set(ids)))


class GrowingMachine(PoolMachine):
    limit = None


for machine in (PoolMachine, GrowingMachine):
    machine.TestCase.settings = settings(max_examples=15, stateful_step_count=30)
TestPool, TestGrowingPool = PoolMachine.TestCase, GrowingMachine.TestCase


def test_a_released_page_holds_256_tokens_without_a_gap(release_config: ModelConfig) -> None:
    layout = lay_out_page(release_config)
    assert layout.tokens == PAGE_TOKENS == 256 and layout.nbytes == 256 * 890
    assert [layout.pages_for(tokens) for tokens in (0, 1, 256, 257)] == [0, 1, 1, 2]


@pytest.mark.parametrize("tokens", [2, 4, 256])
def test_parts_of_a_page_are_aligned_and_do_not_overlap(tokens: int) -> None:
    layout, end = lay_out_page(CONFIG, tokens), 0
    for layer, entry in layout.entries.items():
        for part in (entry, layout.index_keys[layer]):
            assert part.rows == 1 << part.shift and part.codes_at % 64 == part.scales_at % 64 == 0
            assert end <= part.codes_at and part.codes_at + part.rows * part.code_nbytes <= part.scales_at
            end = part.scales_at + part.rows * part.scale_nbytes
    assert end <= layout.nbytes < end + 64


def test_pages_begin_at_a_cache_line() -> None:
    pool = pool_of(expected=2)
    assert all(pool.memory(pool.take()).data_ptr() % 64 == 0 for _ in range(9))


def test_a_budget_in_bytes_is_rounded_down_to_pages() -> None:
    nbytes = lay_out_page(CONFIG).nbytes
    pool = PagePool(CONFIG, plan_layers(CONFIG), nbytes=3 * nbytes - 1)
    assert (pool.limit, pool.num_free) == (2, 2)
    pool.take()
    assert (pool.num_used, pool.nbytes) == (1, nbytes)


@pytest.mark.parametrize("size", [{"nbytes": 1000}, {"pages": 0}])
def test_a_budget_without_a_page_is_refused(size: dict[str, int]) -> None:
    with pytest.raises(OptionError, match=r"the KV cache is .*, expected at least a page of"):
        PagePool(CONFIG, plan_layers(CONFIG), **size)


def test_a_full_pool_says_how_much_it_has() -> None:
    pool = pool_of(pages=2)
    pool.take(), pool.take()
    with pytest.raises(CacheFullError, match=r"all 2 pages of the KV cache \(8 tokens\) are in use"):
        pool.take()


def test_memory_that_the_system_does_not_have_is_an_error() -> None:
    with pytest.raises(CacheFullError, match="no memory for"):
        pool_of(pages=1 << 50)


def test_a_table_that_is_dropped_gives_its_pages_back() -> None:
    pool = pool_of(pages=2)
    table = PageTable(pool)
    table.reserve(0, 2)
    other = table.fork()
    del table
    assert pool.num_free == 0 and pool.references(other.ids[0]) == 1
    del other
    assert pool.num_free == 2


def test_a_table_in_a_cycle_gives_its_pages_back_when_it_is_collected() -> None:
    pool = pool_of(pages=2)
    table = PageTable(pool)
    table.reserve(0, 2)
    table.itself = table  # type: ignore[attr-defined]
    del table
    gc.collect()
    assert pool.num_free == 2


def test_threads_lose_no_page() -> None:
    pool = pool_of(pages=64)

    def work() -> None:
        for _ in range(50):
            table = PageTable(pool)
            table.reserve(0, 4)
            table.fork().writable(2)
            table.truncate(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.num_used == 0 and sorted(pool._free) == list(range(64))
