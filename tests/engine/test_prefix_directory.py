"""A directory of prefixes: who may write, what is there, who goes, what is left alone."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.engine.prefix_directory import LOCK, PrefixDirectory
from shoal.errors import OptionError

OURS = "0123456789abcdef"


def name(number: int, length: int = 10) -> str:
    return f"{OURS}-{length}-{number:032x}.kv"


def fill(path: Path, number: int, nbytes: int = 100, used: int = 1) -> str:
    (path / name(number)).write_bytes(bytes(nbytes))
    os.utime(path / name(number), (used, used))
    return name(number)


Open = Callable[..., PrefixDirectory]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens directories that are closed at the end."""
    directories = list[PrefixDirectory]()

    def open_(path: Path, limit: int, said: list[str] | None = None) -> PrefixDirectory:
        directories.append(PrefixDirectory(path, limit, None if said is None else said.append))
        return directories[-1]

    yield open_
    for directory in directories:
        directory.close()


def names(directory: PrefixDirectory) -> list[str]:
    return sorted(file.name for file in directory.files())


def test_it_is_made_for_its_owner_alone(opened: Open, tmp_path: Path) -> None:
    opened(tmp_path / "größe" / "prefixes", 1000)
    assert (tmp_path / "größe" / "prefixes").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_one_that_cannot_be_made_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"file.*` cannot keep prefixes: "):
        PrefixDirectory(tmp_path / place, 1000)


def test_names_say_length_and_group(opened: Open, tmp_path: Path) -> None:
    fill(tmp_path, 1)
    (file,) = opened(tmp_path, 1000).files()
    assert (file.group, file.length, file.nbytes, file.used) == (OURS, 10, 100, 10**9)


def test_the_least_used_files_make_room(opened: Open, tmp_path: Path) -> None:
    for number, used in ((1, 30), (2, 10), (3, 20)):
        fill(tmp_path, number, used=used)
    directory = opened(tmp_path, 350)
    assert names(directory) == [name(1), name(2), name(3)]
    directory.touch(name(2))
    directory.make_room(200)
    assert names(directory) == [name(2)] == [path.name for path in tmp_path.glob("*.kv")]


def test_a_smaller_limit_holds_from_the_start(opened: Open, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        fill(tmp_path, number, used=number)
    assert names(opened(tmp_path, 250)) == [name(2), name(3)]


def test_times_of_use_survive_a_restart(opened: Open, tmp_path: Path) -> None:
    for number in (1, 2):
        fill(tmp_path, number, used=number)
    first = opened(tmp_path, 1000)
    first.touch(name(1))
    first.close()
    second = opened(tmp_path, 150)
    assert names(second) == [name(1)]


def test_what_a_killed_writer_left_is_removed(opened: Open, tmp_path: Path) -> None:
    (tmp_path / f".{name(1)}.ab12").write_bytes(b"half")
    directory = opened(tmp_path, 1000)
    assert names(directory) == [] and [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_what_is_foreign_is_named_once_and_left(opened: Open, tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "notes.txt").touch()
    (tmp_path / f"{OURS}-0-{1:032x}.kv").touch()
    (tmp_path / name(1)).mkdir()
    os.mkfifo(tmp_path / name(2))
    (tmp_path / name(3)).symlink_to("/dev/zero")
    directory = opened(tmp_path, 0, said)
    assert names(directory) == [] and len(list(tmp_path.iterdir())) == 6
    (sentence,) = said
    assert "and 4 more: not a prefix of Shoal's, left as it is" in sentence


def test_the_second_process_reads_only_and_says_so(opened: Open, tmp_path: Path) -> None:
    said: list[str] = []
    first = opened(tmp_path, 1000)
    fill(tmp_path, 1)
    first.add(name(1))
    second = opened(tmp_path, 50, said)
    assert said == [f"prefixes in `{tmp_path}` are read and none are written: another process uses it"]
    assert names(second) == [name(1)] and not second.is_ours
    second.make_room(1000)
    second.remove(name(1))
    assert (tmp_path / name(1)).exists()
    fill(tmp_path, 2)
    assert name(2) in names(second)


def test_the_second_process_takes_over_when_the_first_has_ended(opened: Open, tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    second = opened(tmp_path, 1000)
    assert not second.is_ours
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert holder.stdin is not None
    holder.stdin.close()
    assert second.is_ours


HOLD = """
import fcntl, sys
file = open(sys.argv[1] + "/lock", "ab")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_one_that_cannot_be_written_is_read(opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 1)
    said: list[str] = []

    def refused(self: Path, mode: str) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "open", refused)
    directory = opened(tmp_path, 1000, said)
    assert names(directory) == [name(1)] and not directory.is_ours
    assert said == [f"prefixes in `{tmp_path}` are read and none are written: Read-only file system"]


def test_a_file_that_vanished_is_no_problem(opened: Open, tmp_path: Path) -> None:
    fill(tmp_path, 1)
    directory = opened(tmp_path, 1000)
    (tmp_path / name(1)).unlink()
    directory.touch(name(1))
    directory.remove(name(1))
    assert names(directory) == []
