"""Rows arrive as they are in the file, whoever reads them and in whatever order; what cannot be read is named."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from miniature import MINI
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.errors import FileChangedError, TensorError
from shoal.weights.engram_store import StoredEngramRows
from shoal.weights.row_reader import ReaderOptions, RowReader, say_nothing
from watchdog import within

KINDS = [ReaderOptions(uring, direct, shuffle=7) for uring in (True, False) for direct in (True, False)]
SECONDS = 20
within_time = partial(within, seconds=SECONDS)
ROWS, WIDTH = 5001, 100
PLANS = [replace(plan_layers(load_config(MINI))[0], layer_id=0, prefix="t", engram_index=0)]
CODES, SCALES = "t.engram.embed.weight", "t.engram.embed.scale"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards that end with a table's part, at no multiple of a block. No byte is a NaN."""
    folder = tmp_path_factory.mktemp("tables")
    generator = torch.Generator().manual_seed(3)
    codes = torch.randint(127, (ROWS, WIDTH), generator=generator, dtype=torch.uint8)
    scales = torch.randint(255, (ROWS, 3), generator=generator, dtype=torch.uint8)
    save_file({CODES: codes}, folder / "a.safetensors")
    save_file({SCALES: scales.view(torch.float8_e8m0fnu)}, folder / "b.safetensors")
    assert all((folder / name).stat().st_size % 4096 for name in ("a.safetensors", "b.safetensors"))
    return folder


@pytest.fixture(scope="module")
def checkpoint(directory: Path) -> Iterator[Checkpoint]:
    with Checkpoint.open(directory) as opened:
        yield opened


def store_of(checkpoint: Checkpoint, options: ReaderOptions | None = None, notice: Any = say_nothing) -> Any:
    """A store that keeps nothing."""
    return StoredEngramRows(checkpoint, PLANS, 0, RowReader(checkpoint, options, notice))


@pytest.fixture(scope="module", params=KINDS, ids=str)
def store(request: pytest.FixtureRequest, checkpoint: Checkpoint) -> Iterator[StoredEngramRows]:
    made = store_of(checkpoint, request.param)
    yield made
    made.close()


@pytest.fixture
def copy(directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(directory, tmp_path / "copy"))


def gather(store: StoredEngramRows, *rows: int) -> Any:
    return within_time(lambda: store.gather(0, torch.tensor(rows, dtype=torch.int64)))


def assert_are_the_files(found: Any, checkpoint: Checkpoint, rows: list[int]) -> None:
    wanted = torch.tensor(rows, dtype=torch.int64)
    assert torch.equal(found.codes, checkpoint.read_rows(CODES, wanted))
    assert torch.equal(found.scales, checkpoint.read_rows(SCALES, wanted))


@settings(max_examples=20)
@given(rows=st.lists(st.integers(0, ROWS - 1), max_size=60), last=st.booleans())
def test_rows_are_those_of_the_file(
    store: StoredEngramRows, checkpoint: Checkpoint, rows: list[int], last: bool
) -> None:
    wanted = [*rows, *([ROWS - 1] if last else [])]
    assert_are_the_files(gather(store, *wanted), checkpoint, wanted)


def test_the_whole_table_and_many_requests_at_once(store: StoredEngramRows, checkpoint: Checkpoint) -> None:
    wanted = [list(range(start, ROWS, 3)) for start in range(3)]
    for rows in wanted:
        store.request(0, rows)
    for rows in reversed(wanted):
        assert_are_the_files(gather(store, *rows), checkpoint, rows)


def test_rows_of_one_block_are_read_once(checkpoint: Checkpoint) -> None:
    for options in KINDS:
        store = store_of(checkpoint, options)
        gather(store, *range(200, 230))
        # Two blocks of codes and one of scales.
        assert store.statistics.reads == 2 and store.statistics.nbytes_read == 3 * 4096
        store.close()


def test_a_request_that_nobody_waits_for_harms_nobody(checkpoint: Checkpoint) -> None:
    for options in KINDS:
        store = store_of(checkpoint, options)
        for start in range(50):
            store.request(0, list(range(start, ROWS, 50)))
        within_time(store.close)
        with pytest.raises(ValueError, match="is closed"):
            gather(store, 0)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_a_shard_cut_short_is_named(copy: Path, options: ReaderOptions) -> None:
    with Checkpoint.open(copy) as checkpoint:
        store = store_of(checkpoint, options)
        gather(store, 0)
        os.truncate(copy / "a.safetensors", 250_000)
        with pytest.raises(FileChangedError, match=r"a\.safetensors` changed size since it was opened"):
            gather(store, 0, ROWS - 1)
        store.close()


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_a_row_beyond_the_end_is_never_made_up(
    copy: Path, options: ReaderOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader's own word, where nothing else has noticed."""
    with Checkpoint.open(copy) as checkpoint:
        store = store_of(checkpoint, options)
        gather(store, 0)
        os.truncate(copy / "a.safetensors", 250_000)
        monkeypatch.setattr(Checkpoint, "check", lambda *_: None)
        with pytest.raises(
            FileChangedError, match=rf"was shortened: it ends before row 2,500 of `{CODES}` at byte 250,"
        ):
            gather(store, 2, 3000, 2500)
        os.truncate(copy / "b.safetensors", 7000)
        with pytest.raises(FileChangedError, match=rf"it ends before row 2,400 of `{SCALES}` at byte 7,"):
            gather(store, 2400)
        store.close()


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_a_shard_that_was_replaced_is_named(copy: Path, options: ReaderOptions) -> None:
    with Checkpoint.open(copy) as checkpoint:
        store, late = store_of(checkpoint, options), store_of(checkpoint, options)
        gather(store, 0)
        content = (copy / "b.safetensors").read_bytes()
        (copy / "new").write_bytes(content)
        (copy / "new").rename(copy / "b.safetensors")
        for each in (store, late):
            with pytest.raises(FileChangedError, match="replaced by another file"):
                gather(each, 0)
            each.close()


@pytest.mark.parametrize("uring", [True, False])
def test_an_error_of_the_disk_is_named(checkpoint: Checkpoint, uring: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing is mapped at the first pages of a process: EIO.
    monkeypatch.setattr(Checkpoint, "reopen", lambda *_: os.open("/proc/self/mem", os.O_RDONLY))
    store = store_of(checkpoint, ReaderOptions(uring, direct=False))
    with pytest.raises(
        FileChangedError, match=rf"a\.safetensors` became unreadable: .*, reading row 7 of `{CODES}` at"
    ):
        gather(store, 7)
    store.close()


def test_after_close_nothing_is_read(copy: Path) -> None:
    checkpoint = Checkpoint.open(copy)
    store = store_of(checkpoint)
    store.request(0, [0])
    checkpoint.close()
    for end in (lambda: None, store.close):
        end()
        with pytest.raises(ValueError, match="is closed"):
            gather(store, 0)


@pytest.mark.parametrize("row", [-1, ROWS])
def test_a_row_that_does_not_exist_is_refused(store: StoredEngramRows, row: int) -> None:
    message = rf"row {row} of `{CODES}` in `.*` does not exist, expected one from 0 to 5000"
    with pytest.raises(TensorError, match=message):
        store.request(0, [0, row])
    with pytest.raises(TensorError, match=message):
        gather(store, 0, row)


def test_a_row_too_long_for_a_read_is_refused(tmp_path: Path) -> None:
    scales = torch.zeros(2, 3, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    save_file({CODES: torch.zeros(2, 20_000, dtype=torch.uint8), SCALES: scales}, tmp_path / "a.safetensors")
    with (
        Checkpoint.open(tmp_path) as checkpoint,
        pytest.raises(TensorError, match="has 20,000 bytes, expected at most"),
    ):
        gather(store_of(checkpoint), 1)


def test_what_is_refused_is_said_once(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("shoal.weights.row_reader._reads_blocks", lambda _: False)
    store = store_of(checkpoint, notice=said.append)
    for _ in range(3):
        gather(store, 1)
    store.close()
    assert said == [f"`{checkpoint.directory}` refuses O_DIRECT: Engram rows come through the page cache"]


def test_a_child_of_a_fork_reads_by_itself(checkpoint: Checkpoint) -> None:
    for options in KINDS[::2]:
        store = store_of(checkpoint, options)
        gather(store, 5)
        child = os.fork()
        if child == 0:
            found = store.gather(0, torch.tensor([6]))
            os._exit(0 if torch.equal(found.codes, checkpoint.read_rows(CODES, torch.tensor([6]))) else 1)
        assert within_time(lambda child=child: os.waitpid(child, 0))[1] == 0
        store.close()
