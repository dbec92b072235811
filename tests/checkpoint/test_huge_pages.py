import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from shoal.checkpoint.huge_pages import HUGE_PAGE_NBYTES, room_for

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
HUGE_PAGES_ARE_OFF = not ENABLED.is_file() or "[never]" in ENABLED.read_text(encoding="ascii")


@pytest.mark.parametrize(
    "nbytes", [0, 1, HUGE_PAGE_NBYTES - 1, HUGE_PAGE_NBYTES, HUGE_PAGE_NBYTES + 1, 3 * HUGE_PAGE_NBYTES + 5]
)
def test_room_has_its_size_and_begins_at_a_huge_page_where_it_fills_one(nbytes: int) -> None:
    room = room_for(nbytes)
    assert room.dtype == torch.uint8 and room.shape == (nbytes,)
    assert nbytes < HUGE_PAGE_NBYTES or room.data_ptr() % HUGE_PAGE_NBYTES == 0
    assert room.fill_(7).eq(7).all()


@pytest.mark.skipif(HUGE_PAGES_ARE_OFF, reason="the system has no pages of 2 MiB")
@pytest.mark.parametrize("filled_by", ["processor", "direct read"])
def test_whole_huge_pages_are_huge_whoever_fills_them(filled_by: str, tmp_path: Path) -> None:
    nbytes = 4 * HUGE_PAGE_NBYTES
    room = room_for(nbytes)
    if filled_by == "processor":
        room.fill_(1)
    else:
        read_directly(tmp_path / "file", room)
    assert room.eq(1).all()
    # More than half: a fragmented memory may not have them all.
    assert sum(huge_kibibytes(room.data_ptr(), nbytes)) * 1024 > nbytes // 2


def read_directly(file: Path, room: torch.Tensor) -> None:
    file.write_bytes(b"\1" * len(room))
    try:
        fd = os.open(file, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        pytest.skip("the file system has no O_DIRECT")
    try:
        assert os.preadv(fd, [room.numpy().data], 0) == len(room)
    finally:
        os.close(fd)


def huge_kibibytes(start: int, nbytes: int) -> Iterator[int]:
    """Of the mappings that reach into [start, start + nbytes)."""
    is_within = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if mapping := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            is_within = int(mapping[1], 16) < start + nbytes and start < int(mapping[2], 16)
        elif is_within and (found := re.match(r"AnonHugePages: +(\d+) kB", line)):
            yield int(found[1])
