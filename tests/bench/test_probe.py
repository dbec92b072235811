"""The probe reads what it counts."""

from shoal.bench.probe import Probe
from shoal.bench.region import ExpertRegion, ExpertShape
from shoal.ops.kernels import Kernels


def test_the_best_rate_of_a_run_is_remembered() -> None:
    probe = Probe(Kernels(threads=2), 2, ExpertRegion(ExpertShape(64, 32), 40))
    probe.wake()
    found = [probe.run() for _ in range(3)]
    assert probe.rates == [rate for rate, _ in found]
    assert probe.best_rate == max(probe.rates)
    rate, timing = found[0]
    assert round(rate * timing.seconds) == 24 * ExpertShape(64, 32).nbytes
