"""Every disk is kept busy, and what is waited for is read first."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from shoal.ops.mixture import ExpertWeights
from shoal.ops.weights import Float4Weight
from shoal.weights.expert_reader import ExpertReader
from shoal.weights.read_queue import ReadJob, Urgency
from shoal.weights.stored_experts import Key

Within = Callable[[Callable[[], Any]], Any]
NUM_EXPERTS = 6
SLOW, FAST = 7, 3


class TwoDisks:
    """Experts of layer 0 on a disk whose every read lasts until `open` is set, those of layer 1 on a fast one."""

    slot_nbytes = 4096

    def __init__(self) -> None:
        self.keys = [(layer_id, expert_id) for layer_id in (0, 1) for expert_id in range(NUM_EXPERTS)]
        self.open = threading.Event()
        self.reads = list[Key]()

    def nbytes(self, key: Key) -> int:
        return self.slot_nbytes

    def disk(self, key: Key) -> int:
        return FAST if key[0] else SLOW

    def read(self, key: Key, room: Tensor) -> ExpertWeights:
        self.reads.append(key)
        assert key[0] or self.open.wait(60)
        matrix = Float4Weight(room[:512].view(32, 16), room[512:544].view(32, 1))
        return ExpertWeights(matrix, matrix, matrix)

    def num_begun(self, disk: int) -> int:
        return sum(self.disk(key) == disk for key in self.reads)

    def close(self) -> None:
        pass


@pytest.fixture
def source() -> Iterator[TwoDisks]:
    source = TwoDisks()
    yield source
    source.open.set()


def job(key: Key, urgency: Urgency = Urgency.DEMAND) -> ReadJob:
    return ReadJob(key, torch.empty(4096, dtype=torch.uint8), urgency)


def wait_for(reader: ExpertReader, count: int) -> list[Key]:
    done = list[ReadJob]()
    while len(done) < count:
        done += reader.done(wait=True)
    assert all(each.weights is not None for each in done)
    return [each.key for each in done]


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("urgency", Urgency)
def test_a_slow_disk_holds_no_other_up(source: TwoDisks, within: Within, num_threads: int, urgency: Urgency) -> None:
    reader = ExpertReader(source, num_threads)
    for key in source.keys:  # the slow disk's first
        reader.submit(job(key, urgency))
    assert sorted(within(lambda: wait_for(reader, NUM_EXPERTS))) == source.keys[NUM_EXPERTS:]
    # No thread of the fast disk has helped out with the slow one, where it would be stuck.
    assert source.num_begun(SLOW) <= num_threads
    source.open.set()
    assert sorted(within(lambda: wait_for(reader, NUM_EXPERTS))) == source.keys[:NUM_EXPERTS]
    within(reader.close)


def test_each_disk_has_its_threads_under_way_at_once(source: TwoDisks, within: Within) -> None:
    reader = ExpertReader(source, 2)
    for key in source.keys[:NUM_EXPERTS]:
        reader.submit(job(key))
    within(lambda: until(lambda: source.num_begun(SLOW) == 2))
    reader.submit(job((1, 0)))
    assert within(lambda: wait_for(reader, 1)) == [(1, 0)]
    assert (source.num_begun(SLOW), source.num_begun(FAST)) == (2, 1)
    source.open.set()
    within(reader.close)


def until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not holds():
        pause.wait(0.001)


def test_what_is_taken_back_is_the_last_that_has_not_begun(source: TwoDisks, within: Within) -> None:
    reader = ExpertReader(source, 1)
    reader.submit(job((0, 0)))
    within(lambda: until(lambda: source.num_begun(SLOW) == 1))
    for key in [(0, 1), (0, 2), (0, 3)]:
        reader.submit(job(key, Urgency.WARM))
    taken = [reader.withdraw_last() for _ in range(2)]
    assert [each and each.key for each in taken] == [(0, 3), (0, 2)]
    hurried, ahead = job((0, 5), Urgency.AHEAD), job((0, 4), Urgency.AHEAD)
    reader.submit(hurried)
    reader.submit(ahead)
    reader.hurry(hurried)
    assert reader.withdraw(ahead) and not reader.withdraw(ahead)
    last = reader.withdraw_last()
    assert last is not None and last.key == (0, 1)
    assert reader.withdraw_last() is None
    source.open.set()
    assert within(lambda: wait_for(reader, 2)) == [(0, 0), (0, 5)]
    within(reader.close)


def test_what_nobody_waits_for_is_read_when_nothing_else_is(source: TwoDisks, within: Within) -> None:
    reader = ExpertReader(source, 3)
    jobs = [job((0, 0)), job((0, 1), Urgency.WARM), job((0, 2), Urgency.AHEAD), job((0, 3), Urgency.AHEAD), job((0, 4))]
    for each in jobs:
        reader.submit(each)
    within(lambda: until(lambda: source.num_begun(SLOW) == 2))
    assert sorted(source.reads) == [(0, 0), (0, 4)]
    assert not reader.withdraw(jobs[0])
    source.open.set()
    within(lambda: wait_for(reader, 5))
    assert source.reads[2] == (0, 2) and reader.is_idle
    within(reader.close)


def test_closing_fails_what_has_not_begun_on_any_disk(source: TwoDisks, within: Within) -> None:
    reader = ExpertReader(source, 1)
    for expert_id in range(3):
        reader.submit(job((0, expert_id)))
    within(lambda: until(lambda: source.num_begun(SLOW) == 1))
    reader.stop()
    source.open.set()
    within(reader.close)
    done = sorted(reader.done(), key=lambda each: each.key)
    assert [each.weights is not None for each in done] == [True, False, False]
    assert all("closed" in str(each.problem) for each in done[1:])
