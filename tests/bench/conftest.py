"""A workbench with tiny experts."""

import pytest

from shoal.bench.probe import Probe
from shoal.bench.region import ExpertRegion, ExpertShape
from shoal.bench.workbench import Workbench
from shoal.ops.kernels import Kernels, available_isas

SMALL = ExpertShape(64, 32)


@pytest.fixture
def bench() -> Workbench:
    isa = available_isas()[0]
    region = ExpertRegion(SMALL, 64)
    return Workbench(isa, 2, region, Probe(Kernels(isa, 2), 2, region), lambda text: None)
