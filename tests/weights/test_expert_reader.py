"""Every disk is kept busy, what is waited for is read first, and every byte goes where it belongs."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from shoal.checkpoint.extents import Extent
from shoal.checkpoint.shard_file import FileIdentity
from shoal.errors import FileChangedError
from shoal.ops.mixture import ExpertWeights
from shoal.ops.weights import Float4Weight
from shoal.weights.expert_key import Key
from shoal.weights.expert_reader import PIECE_NBYTES, PIECES_A_THREAD, ExpertReader
from shoal.weights.page_room import page_room
from shoal.weights.read_job import ReadJob, Urgency

Within = Callable[[Callable[[], Any]], Any]
NUM_EXPERTS, PAGE = 6, 4096
SLOW, FAST = 7, 3


class Opened:
    """A file as the reader takes it."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path, self.fd, self.is_direct = path, fd, False
        path.touch()
        self.identity = FileIdentity.of(path.stat())

    def forget(self, offset: int, nbytes: int) -> None:
        self.forgotten = offset, nbytes

    def turn_to_page_cache(self, reason: str) -> None:
        """There is no other way to read it."""

    def problem(self, start: int, wanted: int, filled: int, error: int) -> FileChangedError:
        return FileChangedError(f"{self.path.name}: {filled} of {wanted} bytes from {start}, error {error}")


class TwoDisks:
    """Experts of layer 0 in a pipe, where each waits for bytes that `let` writes, those of layer 1 in a file."""

    def __init__(self, directory: Path, nbytes: int = PAGE) -> None:
        self.nbytes = nbytes
        self.keys = [(layer_id, expert_id) for layer_id in (0, 1) for expert_id in range(NUM_EXPERTS)]
        path = directory / "experts"
        path.write_bytes(b"".join(bytes([1 + expert_id]) * nbytes for expert_id in range(NUM_EXPERTS)))
        fd, self._let = os.pipe()
        self.files = [Opened(directory / "pipe", fd), Opened(path, os.open(path, os.O_RDONLY))]

    def disk(self, key: Key) -> int:
        return FAST if key[0] else SLOW

    def extents(self, key: Key) -> list[Extent]:
        file = self.files[key[0]]
        return [Extent(file.path, key[1] * self.nbytes, self.nbytes, self.nbytes, 0, ("x",))]

    def file(self, extent: Extent) -> Any:
        return next(file for file in self.files if file.path == extent.path)

    def new_scales(self, key: Key) -> list[tuple[int, int]]:
        return [(10, 20), (self.nbytes - 1, self.nbytes)]

    def accept(self, key: Key, room: Tensor, *, has_nan: bool) -> None:
        if has_nan:
            raise ValueError("a scale is NaN")
        if key[0] == 1 and not bool((room == 1 + key[1]).all()):
            raise ValueError(f"{key} has other bytes")

    def weights(self, key: Key, room: Tensor) -> ExpertWeights:
        matrix = Float4Weight(room[:512].view(32, 16), room[512:544].view(32, 1))
        return ExpertWeights(matrix, matrix, matrix)

    def let(self, count: int) -> None:
        """So many reads of the slow disk end."""
        os.write(self._let, bytes(count * PAGE))

    def close(self) -> None:
        for fd in (self._let, *(file.fd for file in self.files)):
            os.close(fd)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[TwoDisks]:
    source = TwoDisks(tmp_path)
    yield source
    source.close()


@pytest.fixture
def make(source: TwoDisks, within: Within) -> Iterator[Callable[..., ExpertReader]]:
    made = list[ExpertReader]()

    def make(num_threads: int = 2, **options: Any) -> ExpertReader:
        made.append(ExpertReader(source, num_threads, **options))
        return made[-1]

    yield make
    source.let(NUM_EXPERTS)
    for reader in made:
        within(reader.close)


@pytest.fixture
def ring(make: Callable[..., ExpertReader]) -> ExpertReader:
    """A reader whose slow disk can be watched: only a ring reads from a pipe."""
    reader = make()
    if reader.kind != "io_uring":
        pytest.skip("the system has no io_uring for this process")
    return reader


def job(key: Key, urgency: Urgency = Urgency.DEMAND, nbytes: int = PAGE) -> ReadJob:
    return ReadJob(key, page_room(nbytes, "a test"), urgency)


def wait_for(reader: ExpertReader, count: int) -> list[Key]:
    done = list[ReadJob]()
    while len(done) < count:
        done += reader.done(wait=True)
    assert all(each.weights is not None for each in done), [each.problem for each in done]
    return [each.key for each in done]


@pytest.mark.parametrize("urgency", Urgency)
def test_a_slow_disk_holds_no_other_up(source: TwoDisks, ring: ExpertReader, within: Within, urgency: Urgency) -> None:
    for key in source.keys:  # the slow disk's first
        ring.submit(job(key, urgency))
    assert sorted(within(lambda: wait_for(ring, NUM_EXPERTS))) == source.keys[NUM_EXPERTS:]
    assert not ring.is_idle
    source.let(NUM_EXPERTS)
    assert sorted(within(lambda: wait_for(ring, NUM_EXPERTS))) == source.keys[:NUM_EXPERTS]
    assert ring.is_idle


def test_what_is_taken_back_is_the_last_that_has_not_begun(
    source: TwoDisks, ring: ExpertReader, within: Within
) -> None:
    begun = job((0, 0))
    ring.submit(begun)
    within(lambda: until(lambda: len(ring_reads(ring)) == 1))
    for key in [(0, 1), (0, 2), (0, 3)]:
        ring.submit(job(key, Urgency.WARM))
    taken = [ring.withdraw_last() for _ in range(2)]
    assert [each and each.key for each in taken] == [(0, 3), (0, 2)]
    hurried, ahead = job((0, 5), Urgency.AHEAD), job((0, 4), Urgency.AHEAD)
    ring.submit(hurried)
    ring.submit(ahead)
    ring.hurry(hurried)
    assert not ring.withdraw(begun)
    assert ring.withdraw(ahead) and not ring.withdraw(ahead)
    last = ring.withdraw_last()
    assert last is not None and last.key == (0, 1)
    assert ring.withdraw_last() is None
    source.let(2)
    assert sorted(within(lambda: wait_for(ring, 2))) == [(0, 0), (0, 5)]


def ring_reads(reader: ExpertReader) -> list[ReadJob]:
    """The jobs that cannot be taken back any more; the others are given again."""
    begun = []
    reader._native.hold(True)
    for each in list(reader._numbers):
        if reader.withdraw(each):
            reader.submit(each)
        else:
            begun.append(each)
    reader._native.hold(False)
    return begun


def until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not holds():
        pause.wait(0.001)


def test_what_nobody_waits_for_is_read_when_nothing_else_is(
    source: TwoDisks, ring: ExpertReader, within: Within
) -> None:
    jobs = [job((0, 0)), job((0, 1), Urgency.WARM), job((0, 2), Urgency.AHEAD), job((0, 3), Urgency.AHEAD), job((0, 4))]
    ring._native.hold(True)
    for each in jobs:
        ring.submit(each)
    ring._native.hold(False)
    for reads, begun in [(0, {(0, 0), (0, 4)}), (2, {(0, 2)}), (1, {(0, 3), (0, 1)})]:
        source.let(reads)
        within(lambda reads=reads: wait_for(ring, reads) if reads else None)
        within(lambda begun=begun: until(lambda: {each.key for each in ring_reads(ring)} == begun))
    source.let(2)
    assert sorted(within(lambda: wait_for(ring, 2))) == [(0, 1), (0, 3)]


@pytest.mark.parametrize("uring", [True, False])
def test_a_hurried_job_goes_before_others_of_its_kind(
    make: Callable[..., ExpertReader], within: Within, uring: bool
) -> None:
    reader = make(1, uring=uring)
    reader._native.hold(True)
    jobs = [job((1, expert_id), Urgency.AHEAD) for expert_id in range(4)]
    for each in jobs:
        reader.submit(each)
    reader.hurry(jobs[3])
    reader._native.hold(False)
    assert within(lambda: wait_for(reader, 4)) == [(1, 3), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize("uring", [True, False])
@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("shuffle", [0, 5])
def test_experts_of_many_pieces_are_whole_whoever_reads_them(
    tmp_path: Path, within: Within, uring: bool, num_threads: int, shuffle: int
) -> None:
    source = TwoDisks(tmp_path, 2 * PIECE_NBYTES + PAGE)
    reader = ExpertReader(source, num_threads, uring=uring, shuffle=shuffle)
    keys = source.keys[NUM_EXPERTS:]
    reader._native.hold(True)
    for key in keys:
        reader.submit(job(key, nbytes=source.nbytes))
    reader._native.hold(False)
    # `accept` has looked at every byte.
    found = within(lambda: wait_for(reader, NUM_EXPERTS))
    assert sorted(found) == keys
    assert (found == keys) == (not shuffle) or num_threads * PIECES_A_THREAD > 3
    within(reader.close)
    source.close()


@pytest.mark.parametrize("uring", [True, False])
def test_what_cannot_be_read_is_told_and_holds_nothing_up(
    source: TwoDisks, make: Callable[..., ExpertReader], within: Within, uring: bool
) -> None:
    reader, file = make(uring=uring), source.files[1]
    os.truncate(file.path, 2 * PAGE + 100)
    file.identity = FileIdentity.of(file.path.stat())
    for key in source.keys[NUM_EXPERTS:]:
        reader.submit(job(key))
    done = list[ReadJob]()
    while len(done) < NUM_EXPERTS:
        done += within(lambda: reader.done(wait=True))
    problems = {each.key[1]: str(each.problem) for each in done}
    assert problems[0] == problems[1] == "None"
    assert "100 of 4096 bytes from 8192, error 0" in problems[2]
    assert all("0 of 4096 bytes" in problems[expert_id] for expert_id in range(3, NUM_EXPERTS))
    os.dup2(os.open("/dev/null", os.O_WRONLY), source.files[1].fd)
    reader.submit(job((1, 0)))
    (last,) = within(lambda: reader.done(wait=True))
    assert f"error {errno.EBADF}" in str(last.problem)


@pytest.mark.parametrize("place", [9, 10, 19, 20, PAGE - 2, PAGE - 1])
def test_a_scale_that_is_nan_is_told(
    source: TwoDisks, make: Callable[..., ExpertReader], within: Within, place: int
) -> None:
    reader, file = make(), source.files[1]
    with file.path.open("r+b") as shard:
        shard.seek(PAGE + place)
        shard.write(b"\xff")
    file.identity = FileIdentity.of(file.path.stat())
    for expert_id in (0, 1):
        reader.submit(job((1, expert_id)))
        (done,) = within(lambda: reader.done(wait=True))
        is_scale = place in range(10, 20) or place == PAGE - 1
        assert ("NaN" in str(done.problem)) == (is_scale and expert_id == 1)


@pytest.mark.parametrize("uring", [True, False])
def test_bytes_of_a_file_that_changed_meanwhile_are_refused(
    source: TwoDisks, make: Callable[..., ExpertReader], within: Within, uring: bool
) -> None:
    reader, file = make(uring=uring), source.files[1]
    reader.submit(job((1, 0)))
    within(lambda: wait_for(reader, 1))
    os.utime(file.path, ns=(0, file.identity.mtime_ns + 1))
    reader.submit(job((1, 0)))
    (done,) = within(lambda: reader.done(wait=True))
    assert f"error {errno.ESTALE}" in str(done.problem)


@pytest.mark.parametrize("uring", [True, False])
def test_closing_fails_what_has_not_begun_on_any_disk(
    make: Callable[..., ExpertReader], within: Within, uring: bool
) -> None:
    reader = make(1, uring=uring)
    reader.submit(job((1, 0)))
    assert within(lambda: wait_for(reader, 1)) == [(1, 0)]
    reader._native.hold(True)
    for key in [(0, 1), (1, 1), (1, 2)]:
        reader.submit(job(key))
    reader.stop()
    done = within(lambda: reader.done(wait=True))
    assert sorted(each.key for each in done) == [(0, 1), (1, 1), (1, 2)]
    assert all("closed" in str(each.problem) for each in done)
    with pytest.raises(ValueError, match="closed"):
        reader.submit(job((1, 3)))


def threads() -> set[Path]:
    return set(Path("/proc/self/task").iterdir())


def test_a_reader_that_is_dropped_ends_its_threads_before_its_rooms_go(source: TwoDisks, within: Within) -> None:
    before = threads()
    reader = ExpertReader(source, 2)
    assert len(threads() - before) >= 2
    for key in source.keys[NUM_EXPERTS:]:
        reader.submit(job(key))
    del reader
    assert threads() <= before


def test_a_child_of_a_fork_is_refused(make: Callable[..., ExpertReader]) -> None:
    reader = make()
    child = os.fork()
    if child == 0:
        refused = job((1, 0))
        reader.submit(refused)
        os._exit(7 if "forked" in str(refused.problem) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_room_off_a_page_is_refused(make: Callable[..., ExpertReader]) -> None:
    with pytest.raises(AssertionError):
        make().submit(ReadJob((1, 0), page_room(2 * PAGE, "a test")[1:], Urgency.DEMAND))


def test_nothing_is_a_read(make: Callable[..., ExpertReader]) -> None:
    reader, room = make()._native, torch.zeros(PAGE, dtype=torch.uint8)
    number = reader.add_file(0, False, b"/", 0, 0, 0, 0)
    for nbytes, wanted, address in [(0, 0, room.data_ptr()), (1, 2, room.data_ptr()), (1, 1, 0)]:
        with pytest.raises(ValueError, match="read"):
            reader.submit(0, 0, [(number, 0, nbytes, wanted, address)], [])
    with pytest.raises(ValueError, match="nothing to read"):
        reader.submit(0, 0, [], [])
    with pytest.raises(ValueError, match="disk or urgency"):
        reader.submit(9, 0, [(number, 0, 1, 1, room.data_ptr())], [])
