"""Traces of a few tokens through the miniature."""

from collections.abc import Iterator

import pytest
from torch import Tensor

from miniature import MINI
from shoal.assemble import LoadOptions, assemble
from shoal.model.backbone import Backbone
from shoal.tracing.trace import trace_backbone

IDS = [0, 331, 419, 82, 756, 84, 329]


@pytest.fixture(scope="session")
def backbone() -> Iterator[Backbone]:
    with assemble(LoadOptions(MINI, arithmetic="wide")) as model:
        yield model.backbone


@pytest.fixture(scope="session")
def ids() -> list[int]:
    return list(IDS)


@pytest.fixture(scope="session")
def whole(backbone: Backbone) -> dict[str, Tensor]:
    """Seven tokens in one forward."""
    return trace_backbone(backbone, IDS)
