"""Prefixes on the disk: what was written is found by its ids after a restart; what is not sound is never used."""

import dataclasses
import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from prefix_world import CONFIG, KEY, new_cache, same, sequence
from shoal.config.schema import ModelConfig
from shoal.engine.prefix_directory import PrefixDirectory
from shoal.engine.prefix_disk import RETRY_SECONDS, TOKEN_IDS, PrefixDisk
from shoal.engine.prefix_tree import as_ids
from shoal.model.snapshot import load_state, save_state

IDS = tuple(range(33))
LIMIT = 1 << 30


@dataclasses.dataclass
class World:
    """Disks over one directory, what they said, and a clock."""

    path: Path
    said: list[str] = dataclasses.field(default_factory=list)
    now: float = 0.0
    disks: list[PrefixDisk] = dataclasses.field(default_factory=list)

    def open(self, key: str = KEY, config: ModelConfig = CONFIG, limit: int = LIMIT) -> PrefixDisk:
        """As a process does at its start, after the one before has ended."""
        self.close()
        self.disks.append(self.beside(key, config, limit))
        return self.disks[-1]

    def beside(self, key: str = KEY, config: ModelConfig = CONFIG, limit: int = LIMIT) -> PrefixDisk:
        """As a second process does."""
        directory = PrefixDirectory(self.path, limit, self.said.append)
        return PrefixDisk(directory, key, config, self.said.append, lambda: self.now)

    def close(self) -> None:
        for disk in self.disks:
            disk.close()

    @property
    def files(self) -> list[Path]:
        return sorted(self.path.glob("*.kv"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def write(disk: PrefixDisk, ids: Sequence[int]) -> bool:
    return disk.write(as_ids(ids), sequence(ids).state())


def found(disk: PrefixDisk, ids: Sequence[int], above: int = 0) -> int:
    """The length that is found, sound, and of these ids."""
    for file in disk.find(as_ids(ids), above):
        cache = new_cache()
        if disk.load(file, as_ids(ids), cache):
            assert same(cache, sequence(ids[: cache.length]))
            return cache.length
        assert cache.length == 0
    return 0


def test_what_was_written_is_there_after_a_restart(world: World) -> None:
    disk = world.open()
    assert write(disk, IDS) and write(disk, IDS[:10]) and write(disk, (7, *IDS))
    for again in (disk, world.open()):
        assert [file.length for file in again.find(as_ids((*IDS, 9)))] == [33, 10]
        assert [found(again, ids) for ids in ((*IDS, 9), IDS, IDS[:10], (7, *IDS, 1))] == [33, 10, 0, 34]
        assert again.find(as_ids((*IDS, 9)), above=33) == []
    assert world.said == [] and all(path.stat().st_mode & 0o777 == 0o600 for path in world.files)


def test_the_same_sequence_is_written_once(world: World) -> None:
    disk = world.open()
    assert write(disk, IDS) and write(disk, IDS)
    statistics = disk.statistics()
    assert (statistics.files, statistics.written) == (1, 1) and statistics.nbytes == world.files[0].stat().st_size


@pytest.mark.parametrize("sixteenth", range(16))
def test_a_truncated_file_is_named_once_removed_and_computed_again(world: World, sixteenth: int) -> None:
    write(world.open(), IDS)
    (path,) = world.files
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * sixteenth // 16])
    disk = world.open()
    assert found(disk, (*IDS, 9)) == 0 and found(disk, (*IDS, 9)) == 0
    (sentence,) = world.said
    assert str(path) in sentence and "the prompt is computed instead" in sentence
    assert not world.files and write(disk, IDS) and found(disk, (*IDS, 9)) == 33


def test_a_flipped_bit_anywhere_is_never_a_wrong_hit(world: World) -> None:
    write(world.open(), IDS)
    (path,) = world.files
    whole = path.read_bytes()
    draw, refused = random.Random(0), 0
    header = 8 + int.from_bytes(whole[:8], "little")
    for place in [*draw.sample(range(header), 30), *draw.sample(range(header, len(whole)), 30)]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << draw.randrange(8)]) + whole[place + 1 :])
        disk = world.open()
        # `found` compares the bits; a flip may leave the same tensors, as one in white space does.
        refused += not found(disk, (*IDS, 9))
    assert refused >= 55


@pytest.mark.parametrize("other", ["key", "config"])
def test_a_file_of_another_model_is_not_used_and_stays(world: World, other: str) -> None:
    write(world.open(), IDS)
    key = "f" * 64 if other == "key" else KEY
    config = CONFIG if other == "key" else dataclasses.replace(CONFIG, route_scale=2.0)
    disk = world.open(key, config)
    assert found(disk, (*IDS, 9)) == 0
    if other == "key":
        assert len(world.files) == 1
        assert world.said == [
            f"1 prefixes (0.00 GiB) in `{world.path}` are of another checkpoint, config, tokenizer or version: "
            "not used, and removed when room is needed"
        ]
    else:
        assert "of a model with another configuration" in world.said[0]


def test_a_file_of_another_key_under_our_name_is_refused(world: World) -> None:
    disk = world.open()
    write(disk, IDS)
    (path,) = world.files
    save_state(load_state(path, CONFIG, KEY)[0], 33, CONFIG, path, "e" * 64)
    assert found(world.open(), (*IDS, 9)) == 0
    assert "is of another checkpoint, tokenizer or version" in world.said[0]


def other_ids(state: dict[str, torch.Tensor]) -> None:
    state[TOKEN_IDS][5] += 1


def no_ids(state: dict[str, torch.Tensor]) -> None:
    del state[TOKEN_IDS]


def fewer_ids(state: dict[str, torch.Tensor]) -> None:
    state[TOKEN_IDS] = state[TOKEN_IDS][:-1]


def other_shape(state: dict[str, torch.Tensor]) -> None:
    state["ring.3.codes"] = state["ring.3.codes"][:-1]


def one_more(state: dict[str, torch.Tensor]) -> None:
    state["more"] = torch.zeros(1)


@pytest.mark.parametrize("forge", [other_ids, no_ids, fewer_ids, other_shape, one_more])
def test_a_sound_file_of_something_else_is_refused(world: World, forge: Callable[..., None]) -> None:
    write(world.open(), IDS)
    (path,) = world.files
    state, length = load_state(path, CONFIG, KEY)
    forge(state)
    save_state(state, length, CONFIG, path, KEY)
    assert found(world.open(), (*IDS, 9)) == 0
    assert len(world.said) == 1 and not world.files


def test_a_file_of_another_length_than_its_name_says_is_refused(world: World) -> None:
    disk = world.open()
    write(disk, IDS)
    write(disk, IDS[:20])
    short, long = sorted(world.files, key=lambda path: path.stat().st_size)
    long.write_bytes(short.read_bytes())
    assert found(world.open(), (*IDS, 9)) == 20
    assert "is of another prompt than its name says" in world.said[0]


def test_a_file_larger_than_any_of_its_length_is_not_read(world: World) -> None:
    write(world.open(), IDS)
    (path,) = world.files
    os.truncate(path, 1 << 29)
    assert found(world.open(), (*IDS, 9)) == 0
    assert "has 536,870,912 bytes, expected at most" in world.said[0]


def test_a_file_that_the_other_process_removed_is_no_news(world: World) -> None:
    disk = world.open()
    write(disk, IDS)
    (file,) = disk.find(as_ids((*IDS, 9)))
    world.files[0].unlink()
    assert not disk.load(file, as_ids((*IDS, 9)), new_cache())
    assert world.said == [] and disk.statistics().damaged == 0


def test_an_unreadable_file_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = world.open()
    write(disk, IDS)

    def refuse(*args: object, **options: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("shoal.model.snapshot.safe_open", refuse)
    assert found(disk, (*IDS, 9)) == 0 and "Input/output error" in world.said[0]


def test_a_full_disk_is_said_once_and_tried_again_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = world.open()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert not write(disk, IDS)
        world.now += RETRY_SECONDS
        assert not write(disk, IDS[:9])
    (sentence,) = world.said
    assert f"cannot be written to `{world.path}`: No space left on device; requests go on without" in sentence
    assert [path.name for path in world.path.iterdir()] == ["lock"]
    assert not write(disk, IDS)
    world.now += RETRY_SECONDS
    assert write(disk, IDS) and found(disk, (*IDS, 9)) == 33


def test_a_process_that_meets_a_limit_and_one_killed_while_it_writes_leave_nothing_to_find(world: World) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(world.path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert writer.stdout is not None
    refused = writer.stdout.readline()
    assert refused.startswith("False ['prefixes cannot be written to") and "File too large" in refused
    assert writer.stdout.readline() == "[] ['lock']\n"
    assert writer.stdout.readline() == "writing\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    assert not world.files and len(list(world.path.glob(".*.kv.*"))) == 1
    disk = world.open()
    assert [path.name for path in world.path.iterdir()] == ["lock"]
    assert found(disk, (*IDS, 9)) == 0 and world.said == []


WRITER = """
import os, sys, time
from pathlib import Path
from resource import RLIMIT_FSIZE, RLIM_INFINITY, setrlimit
from prefix_world import CONFIG, KEY, sequence
from shoal.engine.prefix_directory import PrefixDirectory
from shoal.engine.prefix_disk import RETRY_SECONDS, PrefixDisk
from shoal.engine.prefix_tree import as_ids

def stop(_):
    print("writing", flush=True)
    time.sleep(100)

said, path = [], Path(sys.argv[1])
disk = PrefixDisk(PrefixDirectory(path, 1 << 30), KEY, CONFIG, said.append)
setrlimit(RLIMIT_FSIZE, (10000, RLIM_INFINITY))
print(disk.write(as_ids(range(33)), sequence(range(33)).state()), said, flush=True)
print(disk.directory.files(), os.listdir(path), flush=True)
setrlimit(RLIMIT_FSIZE, (RLIM_INFINITY, RLIM_INFINITY))
os.fsync = stop
PrefixDisk(disk.directory, KEY, CONFIG).write(as_ids(range(33)), sequence(range(33)).state())
"""


def test_the_least_used_files_make_room(world: World) -> None:
    disk = world.open()
    write(disk, IDS)
    nbytes = world.files[0].stat().st_size
    disk = world.open(limit=3 * nbytes + (64 << 10))
    write(disk, (1, *IDS))
    write(disk, (2, *IDS))
    assert found(disk, (*IDS, 9)) == 33
    write(disk, (3, *IDS))
    assert [found(disk, (*ids, 9)) for ids in (IDS, (1, *IDS), (2, *IDS), (3, *IDS))] == [33, 0, 34, 34]


def test_what_no_limit_could_hold_is_said_and_evicts_nobody(world: World) -> None:
    disk = world.open(limit=400 << 10)
    assert write(disk, IDS)
    long = (1,) * 6000
    assert not write(disk, long)
    assert "a prefix of 6,000 tokens takes" in world.said[0] and "(`--cache-disk`)" in world.said[0]
    assert found(disk, (*IDS, 9)) == 33


def test_a_second_process_finds_what_the_first_writes_and_takes_over_after_it(world: World) -> None:
    first, second = world.open(), world.beside()
    world.disks.append(second)
    assert len(world.said) == 1 and "another process uses it" in world.said[0]
    assert not write(second, IDS)
    write(first, IDS)
    assert found(second, (*IDS, 9)) == 33
    first.close()
    assert write(second, (1, *IDS)) and len(world.files) == 2


def test_a_start_reads_names_only_and_is_quick(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1000):
        (world.path / f"{KEY[:16]}-{number + 1}-{number:032x}.kv").write_bytes(b"not read")
    monkeypatch.setattr(Path, "read_bytes", None)
    monkeypatch.setattr("shoal.model.snapshot.safe_open", None)
    started = time.process_time()
    disk = world.open()
    assert disk.find(as_ids(range(2000))) == []
    # Reading them would take seconds; a busy machine doubles what names take.
    assert time.process_time() - started < 1
    assert disk.statistics().files == 1000
