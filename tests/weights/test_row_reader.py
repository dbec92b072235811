"""Rows arrive as they are in the file, whoever reads them and in whatever order; what cannot be read is named."""

import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from shoal.checkpoint.shards import Checkpoint
from shoal.errors import FileChangedError, TensorError
from shoal.weights.row_reader import ReaderOptions, RowReader
from watchdog import within

KINDS = [ReaderOptions(uring, direct, shuffle=7) for uring in (True, False) for direct in (True, False)]
SECONDS = 20
within_time = partial(within, seconds=SECONDS)
ROWS, WIDTH = 5001, 100


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards that end with a table, at no multiple of a block."""
    folder = tmp_path_factory.mktemp("tables")
    generator = torch.Generator().manual_seed(3)
    weight = torch.randint(256, (ROWS, WIDTH), generator=generator, dtype=torch.uint8)
    scale = torch.randint(256, (ROWS, 3), generator=generator, dtype=torch.uint8)
    save_file({"weight": weight}, folder / "a.safetensors")
    save_file({"scale": scale}, folder / "b.safetensors")
    assert all((folder / name).stat().st_size % 4096 for name in ("a.safetensors", "b.safetensors"))
    return folder


@pytest.fixture(scope="module")
def checkpoint(directory: Path) -> Iterator[Checkpoint]:
    with Checkpoint.open(directory) as opened:
        yield opened


@pytest.fixture(scope="module", params=KINDS, ids=str)
def reader(request: pytest.FixtureRequest, checkpoint: Checkpoint) -> Iterator[RowReader]:
    made = RowReader(checkpoint, request.param)
    yield made
    made.close()


@pytest.fixture
def copy(directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(directory, tmp_path / "copy"))


def ids(*rows: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64)


@settings(max_examples=20)
@given(rows=st.lists(st.integers(0, ROWS - 1), max_size=60), last=st.booleans())
def test_rows_are_those_of_the_file(reader: RowReader, checkpoint: Checkpoint, rows: list[int], last: bool) -> None:
    wanted = ids(*rows, *([ROWS - 1] if last else []))
    given_rows = within_time(lambda: reader.start(["weight", "scale"], wanted).finish())
    for name, part in zip(("weight", "scale"), given_rows, strict=True):
        assert np.array_equal(part, checkpoint.read_rows(name, wanted).numpy())


def test_the_whole_table_and_many_readings_at_once(reader: RowReader, checkpoint: Checkpoint) -> None:
    wanted = [np.arange(start, ROWS, 3) for start in range(3)]
    readings = [reader.start(["weight"], rows) for rows in wanted]
    for rows, reading in reversed(list(zip(wanted, readings, strict=True))):
        assert np.array_equal(within_time(reading.finish)[0], checkpoint.read_rows("weight", rows).numpy())


def test_rows_of_one_block_are_read_once(reader: RowReader) -> None:
    reading = reader.start(["weight"], np.arange(200, 230))
    within_time(reading.finish)
    assert reading.cost().reads == 1 and reading.cost().nbytes == 8192


def test_a_reading_that_nobody_waits_for_harms_nobody(checkpoint: Checkpoint) -> None:
    for options in KINDS:
        reader = RowReader(checkpoint, options)
        for start in range(50):
            reader.start(["weight", "scale"], np.arange(start, ROWS, 50))
        reading = reader.start(["scale"], ids(0))
        within_time(reader.close)
        try:
            within_time(reading.finish)
        except ValueError as problem:
            assert "closed while it read" in str(problem)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_a_shard_cut_short_is_named(copy: Path, options: ReaderOptions) -> None:
    with Checkpoint.open(copy) as checkpoint:
        reader = RowReader(checkpoint, options)
        within_time(reader.start(["weight"], ids(0)).finish)
        os.truncate(copy / "a.safetensors", 250_000)
        with pytest.raises(FileChangedError, match=r"a\.safetensors` changed size since it was opened"):
            within_time(reader.start(["weight"], ids(0, ROWS - 1)).finish)
        reader.close()


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_a_row_beyond_the_end_is_never_made_up(
    copy: Path, options: ReaderOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader's own word, where nothing else has noticed."""
    with Checkpoint.open(copy) as checkpoint:
        reader = RowReader(checkpoint, options)
        within_time(reader.start(["weight"], ids(0)).finish)
        os.truncate(copy / "a.safetensors", 250_000)
        monkeypatch.setattr(Checkpoint, "check", lambda *_: None)
        with pytest.raises(FileChangedError, match=r"was shortened: it ends before row 2,500 of `weight` at byte 250,"):
            within_time(reader.start(["weight"], ids(2, 2500, 3000)).finish)
        reader.close()


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_a_shard_that_was_replaced_is_named(copy: Path, options: ReaderOptions) -> None:
    with Checkpoint.open(copy) as checkpoint:
        reader, late = RowReader(checkpoint, options), RowReader(checkpoint, options)
        within_time(reader.start(["weight"], ids(0)).finish)
        content = (copy / "a.safetensors").read_bytes()
        (copy / "new").write_bytes(content)
        (copy / "new").rename(copy / "a.safetensors")
        with pytest.raises(FileChangedError, match="replaced by another file"):
            within_time(reader.start(["weight"], ids(0)).finish)
        with pytest.raises(FileChangedError, match="replaced by another file"):
            late.start(["weight"], ids(0))
        reader.close(), late.close()


@pytest.mark.parametrize("uring", [True, False])
def test_an_error_of_the_disk_is_named(checkpoint: Checkpoint, uring: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing is mapped at the first pages of a process: EIO.
    monkeypatch.setattr(Checkpoint, "reopen", lambda *_: os.open("/proc/self/mem", os.O_RDONLY))
    reader = RowReader(checkpoint, ReaderOptions(uring, direct=False))
    with pytest.raises(FileChangedError, match=r"a\.safetensors` became unreadable: .*, reading row 7 of `weight` at"):
        within_time(reader.start(["weight"], ids(7)).finish)
    reader.close()


def test_after_close_nothing_is_read(copy: Path) -> None:
    checkpoint = Checkpoint.open(copy)
    reader = RowReader(checkpoint)
    reading = reader.start(["weight"], ids(0))
    checkpoint.close()
    with pytest.raises(ValueError, match="is closed"):
        within_time(reading.finish)
    reader.close()
    with pytest.raises(ValueError, match="is closed"):
        reader.start(["weight"], ids(0))


@pytest.mark.parametrize("row", [-1, ROWS])
def test_a_row_that_does_not_exist_is_refused(reader: RowReader, row: int) -> None:
    with pytest.raises(
        TensorError, match=rf"row {row} of `weight` in `.*` does not exist, expected one from 0 to 5000"
    ):
        reader.start(["weight"], ids(0, row))


def test_a_row_too_long_for_a_read_is_refused(tmp_path: Path) -> None:
    save_file({"wide": torch.zeros(2, 20_000, dtype=torch.uint8)}, tmp_path / "a.safetensors")
    with (
        Checkpoint.open(tmp_path) as checkpoint,
        pytest.raises(TensorError, match="has 20,000 bytes, expected at most"),
    ):
        RowReader(checkpoint).start(["wide"], ids(1))


def test_what_is_refused_is_said_once(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("shoal.weights.row_reader._reads_blocks", lambda _: False)
    reader = RowReader(checkpoint, notice=said.append)
    for name in ("weight", "scale", "weight"):
        within_time(reader.start([name], ids(1)).finish)
    reader.close()
    assert said == [f"`{checkpoint.directory}` refuses O_DIRECT: Engram rows come through the page cache"]


def test_a_child_of_a_fork_reads_by_itself(checkpoint: Checkpoint) -> None:
    for options in KINDS[::2]:
        reader = RowReader(checkpoint, options)
        within_time(reader.start(["weight"], ids(5)).finish)
        child = os.fork()
        if child == 0:
            same = np.array_equal(
                reader.start(["weight"], ids(6)).finish()[0], checkpoint.read_rows("weight", ids(6)).numpy()
            )
            os._exit(0 if same else 1)
        assert within_time(lambda child=child: os.waitpid(child, 0))[1] == 0
        reader.close()
