"""Every build of the native kernels gives the bytes of the torch reference."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from shoal.errors import OptionError
from shoal.ops.native import Native, available_isas, quantize_q8_native
from shoal.ops.quantize import quantize_q8_torch

SEED = 20261129


def same_bytes(x: torch.Tensor, isa: str) -> bool:
    found, wanted = quantize_q8_native(x, isa), quantize_q8_torch(x)
    return torch.equal(found.codes, wanted.codes) and torch.equal(found.scales, wanted.scales)


def every_finite_bfloat16() -> torch.Tensor:
    values = torch.arange(1 << 16).to(torch.int16).view(torch.bfloat16)
    values = values[values.isfinite()]
    return values[: values.numel() // 32 * 32]


@pytest.fixture(params=available_isas())
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_portable_build_is_always_there() -> None:
    assert available_isas()[-1] == "portable"


def test_every_finite_value_beside_its_neighbours(isa: str) -> None:
    assert same_bytes(every_finite_bfloat16().view(-1, 32), isa)


def test_every_finite_value_beside_strangers(isa: str) -> None:
    values = every_finite_bfloat16()
    shuffled = values[torch.randperm(values.numel(), generator=torch.Generator().manual_seed(SEED))]
    assert same_bytes(shuffled.view(-1, 32), isa)


@pytest.mark.parametrize("name", ["act_quant.x", "act_quant.multi.x"])
def test_the_rows_of_the_goldens(isa: str, name: str, goldens: Path) -> None:
    assert same_bytes(load_file(goldens / "ops.safetensors")[name], isa)


@pytest.mark.parametrize("shape", [(0, 32), (1, 32), (7, 96), (3, 5, 160), (17, 5120)])
def test_sizes_none_one_odd_and_real(isa: str, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(SEED)
    spread = 10.0 ** torch.randint(-6, 6, (*shape[:-1], 1), generator=generator)
    assert same_bytes((torch.randn(shape, generator=generator) * spread).to(torch.bfloat16), isa)


@pytest.mark.parametrize("offset", [1, 4, 31])
def test_rows_that_start_at_an_unaligned_address(isa: str, offset: int) -> None:
    room = torch.randn(offset + 640, generator=torch.Generator().manual_seed(SEED)).to(torch.bfloat16)
    assert same_bytes(room[offset:].view(20, 32), isa)


def test_rows_that_are_not_contiguous(isa: str) -> None:
    square = torch.randn((64, 64), generator=torch.Generator().manual_seed(SEED)).to(torch.bfloat16)
    assert same_bytes(square.t(), isa)


def test_an_instruction_set_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="`sse9` is not one of .*portable"):
        Native("sse9")


def test_the_best_instruction_set_is_taken_unless_another_is_named() -> None:
    assert Native().isa == available_isas()[0]
    assert Native("portable").isa == "portable"
