"""Threads and instruction sets change no bit."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from shoal.ops.kernels import available_isas


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_two_threads_give_the_bits_of_one(driver: Any, request: pytest.FixtureRequest) -> None:
    # Whole is run, and remembered, before the threads are there.
    wanted = [driver.whole(length) for length in (1, 33)]
    request.getfixturevalue("two_threads")
    runs = driver.lockstep([driver.prompt([1]), driver.prompt([31, 2])])
    assert [run.differences(one) for run, one in zip(runs, wanted, strict=True)] == [[], []]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("isa", available_isas())
def test_every_build_gives_the_same_bits_on_any_number_of_threads(
    isa: str, threads: int, native_driver: Callable[[str, int], Any]
) -> None:
    sequences = [[1] * 3, [45, 5]]
    runs = []
    for driver in (native_driver("portable", 1), native_driver(isa, threads)):
        runs.append(driver.lockstep([driver.prompt(sizes) for sizes in sequences]))
    assert [run.differences(one) for run, one in zip(*runs, strict=True)] == [[], []]
