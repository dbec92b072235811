"""Options of the prefix cache, and the cache they open."""

from pathlib import Path

import pytest

from prefix_world import CONFIG, KEY
from shoal.engine.prefix_options import FOLDER, PrefixOptions
from shoal.errors import OptionError

ROOM = 1 << 24


@pytest.mark.parametrize(
    ("memory", "directory", "disk", "words"),
    [
        (-1, None, None, "`--prefix-memory` is -1, expected 0 or more bytes"),
        (ROOM, Path("d"), 0, "`--cache-disk` is 0, expected 1 or more bytes"),
        (ROOM, None, 5, "expected `--cache-dir` with it"),
        (0, Path("d"), 5, "`--prefix-memory` is 0, expected more with `--cache-dir`"),
    ],
)
def test_what_cannot_be_is_refused(memory: int, directory: Path | None, disk: int | None, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        PrefixOptions(memory, directory, disk)


def test_it_takes_what_it_is_given_or_a_share() -> None:
    assert [PrefixOptions(memory).nbytes(3200) for memory in (0, 7, None)] == [0, 7, 100]


def test_it_says_where_it_keeps() -> None:
    assert PrefixOptions().line(0) == "prefix cache: none"
    assert PrefixOptions(None).line(1 << 30) == "prefix cache: 1.00 GiB, forgotten at the end"
    places = PrefixOptions(None, Path("d"), 1 << 31).line(1 << 30)
    assert places == f"prefix cache: 1.00 GiB; 2.00 GiB on the disk, in `d/{FOLDER}`"


def test_a_directory_is_opened_in_a_folder_of_its_own_and_the_key_is_asked_for_then_only(tmp_path: Path) -> None:
    assert PrefixOptions(ROOM).open_disk(lambda: pytest.fail("asked"), CONFIG) is None
    disk = PrefixOptions(ROOM, tmp_path, 7).open_disk(lambda: KEY, CONFIG)
    assert disk is not None and (disk.directory.path, disk.directory.limit) == (tmp_path / FOLDER, 7)
    disk.close()
