"""The store gives the rows of the mapped tables, whatever its budget, its reader and what was requested before."""

import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal._native import MOST_FORGOTTEN
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.errors import FileChangedError, TensorError
from shoal.weights.engram_store import StoredEngramRows
from shoal.weights.engram_tables import MappedEngramRows
from shoal.weights.row_reader import ReaderOptions, RowReader
from watchdog import within

Plans = tuple[LayerPlan, ...]
ROWS = {1: 3688, 4: 3904}
ROW_NBYTES = 64 + 2 + 16
BUDGETS = [0, ROW_NBYTES, 13 * ROW_NBYTES, 500 * ROW_NBYTES, 1 << 20]
KINDS = [ReaderOptions(uring, direct, shuffle=11) for uring in (True, False) for direct in (True, False)]
SECONDS = 20
within_time = partial(within, seconds=SECONDS)
SHARES = st.lists(st.floats(0, 1), max_size=12)


@pytest.fixture(scope="module", params=KINDS, ids=str)
def stores(request: pytest.FixtureRequest, miniature: Checkpoint, plans: Plans) -> Iterator[list[StoredEngramRows]]:
    """One store a budget, by one kind of reader; they remember what examples before asked of them."""
    made = [StoredEngramRows(miniature, plans, nbytes, RowReader(miniature, request.param)) for nbytes in BUDGETS]
    yield made
    for store in made:
        store.close()


@pytest.fixture
def store(miniature: Checkpoint, plans: Plans) -> Iterator[StoredEngramRows]:
    made = StoredEngramRows(miniature, plans, 1 << 20)
    yield made
    made.close()


@pytest.fixture
def copy(miniature: Checkpoint, tmp_path: Path) -> Path:
    return Path(shutil.copytree(miniature.directory, tmp_path / "copy"))


def rows_at(layer: int, shares: list[float]) -> torch.Tensor:
    return torch.tensor([round(share * (ROWS[layer] - 1)) for share in shares], dtype=torch.int64)


@settings(max_examples=12)
@given(layer=st.sampled_from([1, 4]), asked=SHARES, requested=st.lists(SHARES, max_size=3))
def test_every_budget_and_reader_gives_the_mapped_rows(
    stores: list[StoredEngramRows],
    miniature: Checkpoint,
    plans: Plans,
    layer: int,
    asked: list[float],
    requested: list[list[float]],
) -> None:
    rows = rows_at(layer, [*asked, *asked[:2], *(share for shares in requested for share in shares[:3])])
    expected = MappedEngramRows(miniature, plans).gather(layer, rows)
    for store in stores:
        for shares in requested:
            store.request(layer, rows_at(layer, shares).tolist())
        found = within_time(lambda store=store: store.gather(layer, rows))
        assert torch.equal(found.codes, expected.codes) and torch.equal(found.scales, expected.scales)


@pytest.mark.parametrize("budget", BUDGETS)
def test_whole_tables_too(miniature: Checkpoint, plans: Plans, budget: int) -> None:
    store = StoredEngramRows(miniature, plans, budget)
    for layer in (1, 4, 1):
        rows = torch.arange(ROWS[layer]).flip(0)
        expected, found = (
            MappedEngramRows(miniature, plans).gather(layer, rows),
            within_time(lambda layer=layer, rows=rows: store.gather(layer, rows)),
        )
        assert torch.equal(found.codes, expected.codes) and torch.equal(found.scales, expected.scales)
    assert store.cache_nbytes <= budget
    store.close()


def test_what_is_in_memory_is_not_read_again(store: StoredEngramRows) -> None:
    rows = torch.tensor([3, 9, 3, 2000])
    first = store.gather(1, rows)
    reads = store.statistics.reads
    store.request(1, [9, 3])
    assert torch.equal(store.gather(1, rows).codes, first.codes)
    s = store.statistics
    assert (s.rows, s.hits, s.reads) == (6, 3, reads) and s.nbytes_read >= 2 * 4096 and s.stall_seconds > 0


def test_rows_of_two_layers_are_not_confused(store: StoredEngramRows, miniature: Checkpoint, plans: Plans) -> None:
    rows, mapped = torch.tensor([5, 6]), MappedEngramRows(miniature, plans)
    for layer in (1, 4, 1, 4):
        assert torch.equal(store.gather(layer, rows).codes, mapped.gather(layer, rows).codes)


def test_a_row_on_its_way_is_not_read_twice(store: StoredEngramRows) -> None:
    begun = []
    for rows in ([7, 5, 7], [5, 7], [5, 11]):
        store.request(1, rows)
        begun.append((store.readings, store.statistics.rows))
    for _ in range(2):
        store.gather(1, torch.tensor([11, 7, 12, 5]))
        begun.append((store.readings, store.statistics.rows))
    assert begun == [(1, 2), (1, 2), (2, 3), (3, 4), (3, 8)]
    assert store.statistics.hits == 4


def test_requests_that_nobody_gathers_are_forgotten(store: StoredEngramRows) -> None:
    for row in range(20):
        store.request(1, [row])
        store.gather(1, torch.tensor([1000 + row]))
    assert store.waiting(1) == MOST_FORGOTTEN


@pytest.mark.parametrize(("part", "width"), [("weight", 64), ("scale", 2)])
def test_a_row_with_nan_is_named_every_time(spoiled: Any, plans: Plans, part: str, width: int) -> None:
    spoiled.poke(f"layers.4.engram.embed.{part}", 2500 * width, b"\xff")
    with Checkpoint.open(spoiled.directory) as checkpoint:
        store = StoredEngramRows(checkpoint, plans, 1 << 20)
        for _ in range(2):
            with pytest.raises(TensorError, match=r"row 2,500 of `layers\.4\.engram\.embed` holds a NaN"):
                store.gather(4, torch.tensor([7, 2500, 8]))
        store.gather(4, torch.tensor([7, 8]))
        store.close()


def test_after_a_failure_the_rows_are_read_again(
    miniature: Checkpoint, plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, opened, reopen = torch.tensor([4, 5]), {}, Checkpoint.reopen

    def spoiled(checkpoint: Checkpoint, name: str, *_: int) -> int:
        fd = os.open("/proc/self/mem", os.O_RDONLY)
        opened[fd] = name
        return fd

    store = StoredEngramRows(miniature, plans, 1 << 20, RowReader(miniature, ReaderOptions(direct=False)))
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "reopen", spoiled)
        store.request(1, rows.tolist())
        with pytest.raises(FileChangedError, match="became unreadable"):
            within_time(lambda: store.gather(1, rows))
    for fd, name in opened.items():
        sound = reopen(miniature, name)
        os.dup2(sound, fd)
        os.close(sound)
    assert torch.equal(store.gather(1, rows).codes, MappedEngramRows(miniature, plans).gather(1, rows).codes)
    store.close()


def test_a_shard_cut_short_or_closed_while_requested_is_named(copy: Path, plans: Plans) -> None:
    with Checkpoint.open(copy) as checkpoint:
        store = StoredEngramRows(checkpoint, plans, 1 << 20)
        store.gather(1, torch.tensor([0]))
        store.request(1, [3000])
        path = checkpoint.entry("layers.1.engram.embed.weight").path
        os.truncate(path, 4096)
        with pytest.raises(FileChangedError, match="changed size"):
            within_time(lambda: store.gather(1, torch.tensor([3000])))
        assert store.gather(1, torch.tensor([0])).codes.shape == (1, 64)
    with pytest.raises(ValueError, match="closed"):
        within_time(lambda: store.gather(4, torch.tensor([5])))
    store.close()
    with pytest.raises(ValueError, match="closed"):
        store.gather(4, torch.tensor([6]))


def test_threads_wait_for_each_other(store: StoredEngramRows, miniature: Checkpoint, plans: Plans) -> None:
    mapped, wrong = MappedEngramRows(miniature, plans), []

    def ask(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(10):
            rows = torch.randint(ROWS[1], (30,), generator=generator)
            store.request(1, rows.tolist())
            if not torch.equal(store.gather(1, rows).codes, mapped.gather(1, rows).codes):
                wrong.append(rows)

    threads = [threading.Thread(target=ask, args=(seed,), daemon=True) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), "it hangs"
    assert not wrong


def test_a_child_of_a_fork_reads_what_its_parent_requested(store: StoredEngramRows) -> None:
    expected = store.gather(1, torch.tensor([7])).codes
    store.request(1, [8, 3000])
    child = os.fork()
    if child == 0:
        both = store.gather(1, torch.tensor([8, 7]))
        os._exit(0 if torch.equal(both.codes[1:], expected) else 1)
    assert within_time(lambda: os.waitpid(child, 0))[1] == 0
    within_time(lambda: store.gather(1, torch.tensor([8, 3000])))


def test_statistics_read_as_a_sentence(store: StoredEngramRows) -> None:
    assert store.statistics.line() == "Engram: 0 rows, 0 % in memory; 0 reads of 0.0 MiB, waited 0.00 s"
