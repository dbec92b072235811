"""What the page cache holds of a checkpoint, and what loading makes of it."""

import mmap
import os
from pathlib import Path

import pytest
import torch

from miniature import MINI
from shoal.checkpoint.page_cache import cached_pages
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.weights import load

PAGES = 64


@pytest.fixture
def mapped(tmp_path: Path) -> tuple[int, torch.Tensor]:
    """A file of `PAGES` pages on the disk and nowhere else, and its mapping."""
    path = tmp_path / "pages"
    path.write_bytes(os.urandom(PAGES * mmap.PAGESIZE))
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    mapping = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    return fd, torch.frombuffer(memoryview(mapping), dtype=torch.uint8)


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_pages_are_counted_once_they_were_read(mapped: tuple[int, torch.Tensor]) -> None:
    fd, content = mapped
    if cached_pages(content.data_ptr(), len(content)):
        pytest.skip("this file system keeps its pages, as one in memory does")
    os.pread(fd, mmap.PAGESIZE, 5 * mmap.PAGESIZE)
    assert cached_pages(content.data_ptr(), len(content)) == 1
    # A range that begins and ends inside pages touches both.
    assert cached_pages(content.data_ptr() + 6 * mmap.PAGESIZE - 1, 2) == 1
    assert cached_pages(content.data_ptr() + 6 * mmap.PAGESIZE, 10) == 0
    os.pread(fd, PAGES * mmap.PAGESIZE, 0)
    assert cached_pages(content.data_ptr(), len(content)) == PAGES


@pytest.mark.parametrize(("share", "through"), [(0.0, False), (0.79, False), (0.8, True), (1.0, True)])
def test_dense_weights_come_through_a_page_cache_that_has_most_of_them(
    monkeypatch: pytest.MonkeyPatch, share: float, through: bool
) -> None:
    asked, reader = list[bool](), load.WeightReader

    def watched(*given: object, through_page_cache: bool) -> object:
        asked.append(through_page_cache)
        return reader(*given, through_page_cache=through_page_cache)  # type: ignore[arg-type]

    monkeypatch.setattr(load, "WeightReader", watched)
    monkeypatch.setattr(Checkpoint, "cached_share", lambda *_: share)
    with Checkpoint.open(MINI) as checkpoint:
        load.load_backbone(load_config(MINI), checkpoint, through_page_cache=None)
        load.load_backbone(load_config(MINI), checkpoint)
    assert asked == [through, False]


def test_a_checkpoint_that_was_just_read_is_cached() -> None:
    with Checkpoint.open(MINI) as checkpoint:
        names = checkpoint.names()
        for name in names:
            checkpoint.tensor(name)
        assert checkpoint.cached_share(names) == 1.0
        assert checkpoint.cached_share([]) == 0.0
