"""The peak of what is resident."""

import mmap
from pathlib import Path

import pytest

from shoal.bench.resident import Resident, ResidentPeak

MIB = 1 << 20
ROOM = 96 * MIB


def take_and_give_back() -> None:
    with mmap.mmap(-1, ROOM) as room:
        room.write(b"x" * ROOM)


def test_memory_given_back_before_the_end_counts() -> None:
    # The interval never comes: the kernel's own peak has it.
    with ResidentPeak(interval=60) as peak:
        first = peak.largest.nbytes
        take_and_give_back()
    assert peak.nbytes >= first + ROOM - 8 * MIB


def test_memory_given_back_before_the_beginning_does_not_count() -> None:
    take_and_give_back()
    with ResidentPeak() as peak:
        pass
    if peak.nbytes > peak.largest.nbytes + ROOM // 2:
        pytest.fail(f"{peak.nbytes:,} at most, {peak.largest.nbytes:,} sampled")


def test_what_is_highest_of_several_times_counts() -> None:
    peak = ResidentPeak(interval=60)
    with peak:
        take_and_give_back()
    highest = peak.nbytes
    with peak:
        pass
    assert peak.nbytes == highest


class Proc:
    """A directory in which a kernel states what it is told to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def state(self, peak: int, now: int, anonymous: int, of_files: int) -> None:
        lines = {"VmHWM": peak, "VmRSS": now, "RssAnon": anonymous, "RssFile": of_files}
        text = "".join(f"{name}:\t{kib} kB\n" for name, kib in lines.items())
        (self.directory / "status").write_text(text)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_a_kernel_that_refuses_to_forget_its_peak_lends_it_only_when_it_grows(proc: Proc) -> None:
    proc.state(peak=9000, now=100, anonymous=60, of_files=40)
    peak = ResidentPeak(proc.directory, interval=60)
    with peak:
        proc.state(peak=9000, now=300, anonymous=200, of_files=100)
    assert (peak.nbytes, peak.largest) == (300 << 10, Resident(300 << 10, 200 << 10, 100 << 10))
    with peak:
        proc.state(peak=9500, now=200, anonymous=200, of_files=0)
    assert peak.nbytes == 9500 << 10


def test_the_parts_are_those_of_the_largest_sample(proc: Proc) -> None:
    proc.state(peak=500, now=500, anonymous=400, of_files=100)
    with (peak := ResidentPeak(proc.directory, interval=60)):
        proc.state(peak=500, now=450, anonymous=100, of_files=350)
    assert peak.largest == Resident(500 << 10, 400 << 10, 100 << 10)


def test_samples_are_taken_meanwhile(proc: Proc) -> None:
    proc.state(peak=0, now=100, anonymous=100, of_files=0)
    with (peak := ResidentPeak(proc.directory, interval=0.001)):
        proc.state(peak=0, now=700, anonymous=700, of_files=0)
        for _ in range(20_000):
            if peak.nbytes >= 700 << 10:
                break
            peak._ended.wait(0.001)
        proc.state(peak=0, now=100, anonymous=100, of_files=0)
    assert peak.nbytes == 700 << 10


def test_where_nothing_is_stated_there_is_no_peak(tmp_path: Path) -> None:
    with ResidentPeak(tmp_path / "absent") as peak:
        pass
    assert peak.nbytes == 0
