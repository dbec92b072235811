import os
import threading
from pathlib import Path

import pytest

from shoal.checkpoint import shard_file
from shoal.checkpoint.shard_file import ShardFile
from shoal.errors import FileChangedError, HeaderError

DATA = bytes(range(200))


@pytest.fixture
def shard(write_tensors):
    with ShardFile(write_tensors({"w": ("U8", [200], DATA)})) as file:
        yield file


def spans(shard, *pairs):
    start = shard.header.tensors["w"].start
    return [(start + low, start + high) for low, high in pairs]


def test_spans_are_read_end_to_end(shard):
    assert bytes(shard.read(spans(shard, (5, 9), (0, 0), (190, 200), (5, 9)), 18)) == DATA[5:9] + DATA[190:] + DATA[5:9]
    assert shard.read([], 0).shape == (0,)


def test_short_reads_are_continued(shard, monkeypatch):
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, at: whole(fd, [views[0][:7]], at))
    assert bytes(shard.read(spans(shard, (3, 200)), 197)) == DATA[3:]


def test_a_large_read_is_split(shard, monkeypatch):
    monkeypatch.setattr(shard_file, "MAX_READ_NBYTES", 64)
    assert bytes(shard.read(spans(shard, (0, 200)), 200)) == DATA


def test_a_file_shortened_while_it_is_read_is_not_zeros(shard, monkeypatch):
    monkeypatch.setattr(shard, "check", lambda: None)
    os.truncate(shard.path, shard.path.stat().st_size - 50)
    ((start, _),) = spans(shard, (100, 200))
    with pytest.raises(FileChangedError, match=f"was shortened: at byte {start:,} found 50 bytes, expected 100"):
        shard.read(spans(shard, (100, 200)), 100)


def test_a_file_rewritten_while_it_is_read_is_an_error(shard, monkeypatch):
    whole = os.preadv

    def rewritten_after(fd, views, at):
        os.utime(shard.path, ns=(0, 1))
        return whole(fd, views, at)

    monkeypatch.setattr(os, "preadv", rewritten_after)
    with pytest.raises(FileChangedError, match=r"was written to"):
        shard.read(spans(shard, (0, 4)), 4)


def test_a_failing_disk_is_named(shard, monkeypatch):
    def fail(fd, views, at):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(FileChangedError, match=r"became unreadable at byte .*: Input/output error"):
        shard.read(spans(shard, (0, 4)), 4)


def replace(path):
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    status = path.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.rename(path)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (os.unlink, "is gone since it was opened: No such file"),
        (
            lambda path: os.truncate(path, path.stat().st_size - 1),
            "changed size since it was opened: found .* expected",
        ),
        (lambda path: os.truncate(path, path.stat().st_size + 1), "changed size since it was opened"),
        (
            lambda path: os.utime(path, ns=(0, 12345)),
            "was written to since it was opened: found mtime 12345 ns",
        ),
        (replace, "was replaced by another file since it was opened"),
        (lambda path: path.rename(path.with_name("moved")), "is gone"),
    ],
    ids=["vanished", "shortened", "grown", "written", "replaced", "moved"],
)
def test_a_changed_file_is_an_error_at_every_access(shard, change, found):
    shard.check()
    change(shard.path)
    for access in (
        shard.check,
        lambda: shard.view(shard.header.tensors["w"]),
        lambda: shard.read(spans(shard, (0, 4)), 4),
    ):
        with pytest.raises(FileChangedError, match=found):
            access()


def test_a_read_does_not_count_as_a_change(shard):
    shard.path.read_bytes()
    os.utime(shard.path, ns=(0, shard.path.stat().st_mtime_ns))
    shard.check()


def test_a_closed_file_is_refused_and_its_views_live_on(write_tensors):
    shard = ShardFile(write_tensors({"w": ("U8", [200], DATA)}))
    view = shard.view(shard.header.tensors["w"])
    shard.close()
    shard.close()
    assert bytes(view) == DATA
    for access in (
        shard.check,
        lambda: shard.view(shard.header.tensors["w"]),
        lambda: shard.read(spans(shard, (0, 4)), 4),
    ):
        with pytest.raises(ValueError, match=r"a.safetensors` is closed"):
            access()


def num_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_closed_file_gives_its_descriptors_back(write_tensors):
    path = write_tensors({"w": ("U8", [200], DATA)})
    before = num_descriptors()
    ShardFile(path).close()
    path.write_bytes(b"")
    with pytest.raises(HeaderError):
        ShardFile(path)
    assert num_descriptors() == before


def test_threads_may_read_at_once(shard):
    wrong = []

    def read(low):
        for _ in range(200):
            if bytes(shard.read(spans(shard, (low, low + 20)), 20)) != DATA[low : low + 20]:
                wrong.append(low)

    threads = [threading.Thread(target=read, args=(low,)) for low in range(0, 180, 45)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
