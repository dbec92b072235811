"""The probe reads data, never holes, and says when it could not go around the page cache."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import OptionError
from shoal.plan import disk_probe
from shoal.plan.disk_probe import DiskProbe, holds_data, measure_disk
from watchdog import within


def written(path: Path, nbytes: int) -> Path:
    with path.open("wb") as file:
        file.write(os.urandom(nbytes))
        os.fsync(file.fileno())
    return path


def test_it_gives_a_plausible_rate(tmp_path: Path) -> None:
    files = [written(tmp_path / "a", 3 << 20), written(tmp_path / "b", 1 << 20)]
    rate = measure_disk(files, seconds=0.2)
    assert 1e5 < rate.per_second < 1e12


def test_without_o_direct_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_probe, "_reads_directly", lambda file: False)
    assert not measure_disk([written(tmp_path / "a", 1 << 20)], seconds=0.1).direct


def test_holes_are_not_measured(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(OptionError, match="the 1 files hold no data to measure the disk with"):
        measure_disk([tmp_path / "sparse"])


def test_only_the_data_of_a_half_sparse_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "half", 1 << 20)
    os.truncate(path, 64 << 20)
    monkeypatch.setattr(disk_probe, "PIECE_NBYTES", 1 << 20)
    fd = os.open(path, os.O_RDONLY)
    try:
        assert [piece.offset for piece in disk_probe._sample([fd]) if piece.is_data] == [0]
    finally:
        os.close(fd)


def test_a_piece_with_any_hole_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, piece = tmp_path / "holes", 1 << 20
    with path.open("wb") as file:
        file.write(os.urandom(piece + piece // 2))  # data, then half a piece of it
        file.seek(4 * piece + piece // 2)  # a hole, then half a piece of data
        file.write(os.urandom(piece + piece // 2))
    monkeypatch.setattr(disk_probe, "PIECE_NBYTES", piece)
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        found = sorted(piece.offset for piece in disk_probe._sample([fd]) if piece.is_data)
    finally:
        os.close(fd)
    assert found == [0, 5 * piece]


def test_pieces_cover_a_file_once_and_end_on_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_probe, "PIECE_NBYTES", 8192)
    fd = os.open(written(tmp_path / "a", 3 * 8192 + 4096 + 17), os.O_RDONLY)
    try:
        pieces = sorted((piece.offset, piece.nbytes) for piece in disk_probe._sample([fd]))
    finally:
        os.close(fd)
    assert pieces == [(0, 8192), (8192, 8192), (16384, 8192), (24576, 4096)]


def test_less_than_a_page_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="hold no data"):
        measure_disk([written(tmp_path / "a", 4095)])


def test_a_file_that_is_gone_is_an_option_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot open `.*absent`"):
        measure_disk([tmp_path / "absent"])


def test_a_probe_runs_as_often_as_wanted_and_reads_all_before_it_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_probe, "PIECE_NBYTES", 8192)
    read = list[int]()
    really = disk_probe._Piece.read_into

    def read_into(piece: disk_probe._Piece, *more: Any) -> int:
        read.append(piece.offset)
        return really(piece, *more)

    monkeypatch.setattr(disk_probe._Piece, "read_into", read_into)
    with DiskProbe([written(tmp_path / "a", 5 * 8192)]) as probe:
        rates = [probe.run(10.0), probe.run(10.0)]
        assert [run.nbytes for run in probe.runs] == [5 * 8192, 5 * 8192]
        assert probe.best_rate == max(rates)
    assert sorted(read[:5]) == sorted(read[5:]) == list(range(0, 5 * 8192, 8192))


def test_a_read_that_fails_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_into(piece: disk_probe._Piece, *more: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk_probe._Piece, "read_into", read_into)
    with (
        DiskProbe([written(tmp_path / "a", 8192)]) as probe,
        pytest.raises(OptionError, match="cannot be read: Input"),
    ):
        within(probe.run, 20.0)


def test_a_probe_that_found_nothing_leaves_no_file_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OptionError, match="hold no data"):
        DiskProbe([written(tmp_path / "a", 4095)])
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_only_bytes_that_were_written_are_data(tmp_path: Path) -> None:
    path = written(tmp_path / "half", 1 << 20)
    os.truncate(path, 4 << 20)
    fd = os.open(path, os.O_RDONLY)
    try:
        found = [holds_data(fd, *span) for span in ((0, 1 << 20), (4097, 17), (0, (1 << 20) + 4096), (3 << 20, 1))]
    finally:
        os.close(fd)
    assert found == [True, True, False, False]
