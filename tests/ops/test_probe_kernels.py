"""The bandwidth probe reads every byte, once, on every build."""

import pytest
import torch
from torch import Tensor

from shoal.ops.kernels import Kernels, available_isas
from shoal.ops.probe_kernels import stream_read_torch

PIECE = 1 << 18


@pytest.fixture(scope="module")
def memory() -> Tensor:
    return torch.randint(0, 256, (4 * PIECE,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("nbytes", [0, 1, 7, 8, 9, 255, 256, 4096, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 1003])
def test_the_sum_is_that_of_all_words(memory: Tensor, nbytes: int, isa: str, threads: int) -> None:
    starts = torch.tensor([0, 3, PIECE + 8, 4 * PIECE - nbytes])
    assert Kernels(isa, threads).stream_read(memory, starts, nbytes) == stream_read_torch(memory, starts, nbytes)


def test_no_stretch_is_nothing(memory: Tensor) -> None:
    assert Kernels().stream_read(memory, torch.zeros(0, dtype=torch.int64), 100) == 0


@pytest.mark.parametrize("position", [0, 5, PIECE - 1, PIECE, 2 * PIECE + 1002])
def test_no_byte_is_left_out(position: int) -> None:
    memory = torch.zeros(2 * PIECE + 1003, dtype=torch.uint8)
    memory[position] = 1
    assert Kernels(threads=2).stream_read(memory, torch.tensor([0]), memory.numel()) == 1 << 8 * (position % 8)


def test_a_stretch_past_the_end_is_refused(memory: Tensor) -> None:
    with pytest.raises(AssertionError):
        Kernels().stream_read(memory, torch.tensor([1]), memory.numel())
