"""Configurations, and rows to store."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from miniature import MINI
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.ops.quantize import BlockFormat, Quantized


@pytest.fixture(scope="session")
def coded_rows() -> Callable[[BlockFormat, int, range], Quantized]:
    """Rows of which every byte tells its number; codes and scales are not NaN."""

    def build(format: BlockFormat, dim: int, numbers: range) -> Quantized:
        values = torch.tensor(list(numbers), dtype=torch.int64)[:, None]
        codes = (values * 7 + torch.arange(format.code_bytes(dim))) % 100
        scales = (values * 3 + torch.arange(format.scale_bytes(dim))) % 100
        return Quantized(codes.to(torch.uint8), scales.to(torch.uint8), format)

    return build


@pytest.fixture(scope="session")
def config() -> ModelConfig:
    return load_config(MINI / "config.json")


@pytest.fixture(scope="session")
def flat_config() -> ModelConfig:
    return load_config(MINI / "inference" / "config.json")


@pytest.fixture(scope="session")
def release_config() -> ModelConfig:
    return load_config(Path(__file__).parents[1] / "data" / "release" / "config.json")
