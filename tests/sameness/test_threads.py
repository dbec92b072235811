"""Threads change no bit."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch


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
