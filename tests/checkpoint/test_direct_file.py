"""Whole pages come past the page cache, or through it where that is refused, and nothing else is taken for them."""

import errno
import mmap
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from direct_opens import refuse_direct_opens
from shoal.checkpoint import direct_file
from shoal.checkpoint.direct_file import ALIGNMENT, DirectFile, page_end, page_start
from shoal.checkpoint.shard_file import ShardFile
from shoal.errors import FileChangedError

# The tail is no whole page.
DATA = b"".join(number.to_bytes(4, "little") for number in range(5000))
Open = Callable[[], DirectFile]


@pytest.fixture
def shard(write_tensors: Callable[..., Path]) -> Iterator[ShardFile]:
    with ShardFile(write_tensors({"w": ("U8", [len(DATA)], DATA)})) as file:
        yield file


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def opened(shard: ShardFile, notices: list[str]) -> Iterator[DirectFile]:
    file = DirectFile(shard, notices.append)
    yield file
    file.close()


def read(file: DirectFile, start: int, end: int) -> bytes:
    first = page_start(start)
    # Its pages begin where a page of memory does.
    room = mmap.mmap(-1, page_end(end) - first)
    file.read(memoryview(room), first, end - first)
    return room[start - first : end - first]


def content(shard: ShardFile, start: int, end: int) -> bytes:
    return shard.path.read_bytes()[start:end]


@pytest.mark.parametrize("span", [(0, 1), (0, 4096), (1, 4097), (4095, 12_289), (8192, None), (17_000, None)])
def test_any_span_is_read_from_whole_pages(shard: ShardFile, opened: DirectFile, span: tuple[int, int | None]) -> None:
    start, end = span[0], span[1] or shard.path.stat().st_size
    assert read(opened, start, end) == content(shard, start, end)


def refuse_direct_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    really = os.preadv

    def preadv(fd: int, views: list[memoryview], offset: int) -> int:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return really(fd, views, offset)

    monkeypatch.setattr(os, "preadv", preadv)


@pytest.mark.parametrize("refuse", [refuse_direct_opens, refuse_direct_reads])
def test_where_o_direct_is_refused_bytes_come_through_the_page_cache_and_it_says_so_once(
    shard: ShardFile, notices: list[str], monkeypatch: pytest.MonkeyPatch, refuse: Callable[[pytest.MonkeyPatch], None]
) -> None:
    refuse(monkeypatch)
    file = DirectFile(shard, notices.append)
    for _ in range(2):
        assert read(file, 5, 9000) == content(shard, 5, 9000)
    file.close()
    (notice,) = notices
    assert f"`{shard.path.parent}` cannot be read past the page cache (O_DIRECT: Invalid argument)" in notice
    assert not file.is_direct


@pytest.mark.parametrize("most", [4096, 5000])
def test_short_reads_are_continued(
    shard: ShardFile, opened: DirectFile, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    really = os.preadv

    def preadv(fd: int, views: list[memoryview], offset: int) -> int:
        assert offset % ALIGNMENT == 0
        return min(most, really(fd, views, offset))

    monkeypatch.setattr(os, "preadv", preadv)
    assert read(opened, 7, 18_000) == content(shard, 7, 18_000)


def test_large_reads_come_in_pieces(shard: ShardFile, opened: DirectFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_file, "PIECE_NBYTES", 4096)
    assert read(opened, 7, 18_000) == content(shard, 7, 18_000)


def test_a_read_that_ends_too_early_is_a_shortened_file(opened: DirectFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "preadv", lambda fd, views, offset: 0 if offset else 4096)
    with pytest.raises(FileChangedError, match=r"was shortened: at byte 0 found 4,096 bytes, expected 9,000"):
        read(opened, 0, 9000)


def test_a_read_error_is_named_with_its_place(opened: DirectFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def preadv(fd: int, views: list[memoryview], offset: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", preadv)
    with pytest.raises(FileChangedError, match=r"became unreadable at byte 4,096: Input/output error"):
        read(opened, 5000, 9000)


def truncate(path: Path) -> None:
    os.truncate(path, 9000)


def write(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(6000)
        file.write(b"?")
    os.utime(path, ns=(1, 1))


def replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.mark.parametrize("change", [truncate, write, replace, Path.unlink])
@pytest.mark.parametrize("during", [False, True])
def test_a_file_that_is_not_the_same_is_refused_even_when_it_changed_during_the_read(
    shard: ShardFile,
    opened: DirectFile,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    during: bool,
) -> None:
    really = os.preadv

    def preadv(fd: int, views: list[memoryview], offset: int) -> int:
        got = really(fd, views, offset)
        change(shard.path)
        return got

    if during:
        monkeypatch.setattr(os, "preadv", preadv)
    else:
        change(shard.path)
    with pytest.raises(FileChangedError):
        read(opened, 5, 8000)


def test_a_file_replaced_before_it_is_opened_is_refused(shard: ShardFile, notices: list[str]) -> None:
    replace(shard.path)
    with pytest.raises(FileChangedError, match="was replaced"):
        DirectFile(shard, notices.append)


def test_a_file_that_went_away_before_it_is_opened_is_refused(shard: ShardFile, notices: list[str]) -> None:
    shard.path.unlink()
    with pytest.raises(FileChangedError, match="is gone since it was opened: No such file"):
        DirectFile(shard, notices.append)


def test_a_file_that_cannot_be_opened_is_named(
    shard: ShardFile, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", open_)
    with pytest.raises(FileChangedError, match=f"`{shard.path}` cannot be opened: Too many open files"):
        DirectFile(shard, notices.append)
    assert not notices


def test_a_file_replaced_before_it_turns_to_the_page_cache_is_refused(
    shard: ShardFile, opened: DirectFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = shard.reopen

    def reopen(flags: int = 0) -> int:
        replace(shard.path)
        return really(flags)

    refuse_direct_reads(monkeypatch)
    monkeypatch.setattr(shard, "reopen", reopen)
    with pytest.raises(FileChangedError, match="was replaced"):
        read(opened, 0, 9000)


def test_by_choice_the_page_cache_is_used_and_keeps_what_it_read(
    shard: ShardFile, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten, flags = list[int](), list[int]()
    reopen = shard.reopen
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: forgotten.append(1))
    monkeypatch.setattr(shard, "reopen", lambda given=0: (flags.append(given), reopen(given))[1])
    file = DirectFile(shard, notices.append, through_page_cache=True)
    assert read(file, 5, 9000) == content(shard, 5, 9000)
    file.close()
    assert (notices, forgotten, flags) == ([], [], [0])


@pytest.mark.parametrize("most", [4096, 5000, 1 << 20])
def test_progress_is_every_byte_wanted(opened: DirectFile, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    really = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, offset: min(most, really(fd, views, offset)))
    told = list[int]()
    opened.read(memoryview(mmap.mmap(-1, 12288)), 4096, 9001, told.append)
    assert sum(told) == 9001 and min(told) > 0 and (len(told) > 1) == (most < 9001)


def test_what_progress_raises_ends_the_read(opened: DirectFile) -> None:
    def stop(_: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        opened.read(memoryview(mmap.mmap(-1, 12288)), 4096, 9001, stop)


def test_signals_that_come_while_it_reads_change_nothing(shard: ShardFile, opened: DirectFile) -> None:
    came = list[int]()
    before = signal.signal(signal.SIGALRM, lambda number, _: came.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        while len(came) < 20:
            assert read(opened, 5, 18_000) == content(shard, 5, 18_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
