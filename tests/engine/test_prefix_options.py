"""Options of the prefix cache, and the cache they open."""

from pathlib import Path

import pytest

from prefix_world import CONFIG, KEY, new_cache, sequence
from shoal.engine.prefix import PrefixCache
from shoal.engine.prefix_options import FOLDER, PrefixOptions
from shoal.errors import OptionError

ROOM = 1 << 24


def opened(options: PrefixOptions) -> PrefixCache | None:
    return options.open(new_cache, lambda: KEY, CONFIG)


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


def test_without_memory_there_is_no_cache() -> None:
    assert opened(PrefixOptions(0)) is None


def test_without_a_directory_it_is_in_memory_only() -> None:
    cache = opened(PrefixOptions(ROOM))
    assert cache is not None and cache.limit == ROOM and cache.statistics().disk is None
    cache.close()


def test_a_directory_serves_the_next_start(tmp_path: Path) -> None:
    for length in (0, 3):
        cache = opened(PrefixOptions(ROOM, tmp_path))
        assert cache is not None
        hit = cache.find((1, 2, 3, 4))
        assert (0 if hit is None else hit[1]) == length
        cache.keep((1, 2, 3), sequence((1, 2, 3)))
        cache.close()
    assert (tmp_path / FOLDER).is_dir()
