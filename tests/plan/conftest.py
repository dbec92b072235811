"""The released model's bytes, counted once."""

from pathlib import Path

import pytest

from miniature import MINI
from shoal.config.layouts import load_config
from shoal.plan.size import GIB
from shoal.plan.stored import Stored, count_stored

RELEASE = Path(__file__).parents[1] / "data" / "release"
BUDGETS = [gibibytes * GIB for gibibytes in (24, 64, 128, 256, 512)]


@pytest.fixture(scope="session")
def release() -> Stored:
    return count_stored(load_config(RELEASE / "config.json"))


@pytest.fixture(scope="session")
def miniature() -> Stored:
    return count_stored(load_config(MINI))
