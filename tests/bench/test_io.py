"""The table of `shoal bench io`, on the random miniature."""

import pytest

from miniature import MINI
from shoal.bench import expert_read
from shoal.bench.io import io_results, probe_result
from shoal.bench.result import Result
from shoal.bench.shards import shards_of
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.plan.disk_probe import DiskProbe, ProbeRun


def test_the_rows_have_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expert_read, "ROUNDS", 2)
    with Checkpoint.open(MINI) as checkpoint, DiskProbe(shards_of(checkpoint)) as probe:
        rows = io_results(checkpoint, load_config(MINI), probe, lambda text: None)
    assert [row.name for row in rows] == ["disk_probe", "expert_read", "engram_96", "engram_512"]
    assert all(isinstance(row, Result) for row in rows)


def test_the_probe_s_row_is_the_median_of_its_undisturbed_runs() -> None:
    with Checkpoint.open(MINI) as checkpoint, DiskProbe(shards_of(checkpoint)) as probe:
        probe.runs += [ProbeRun(1 << 30, seconds) for seconds in (1.0, 1.1, 1.2, 4.0)]
        row = probe_result(probe)
    assert (row.rounds, row.dropped, row.ratio, row.unit) == (3, 1, 1.0, "GB/s")
    assert row.value == pytest.approx((1 << 30) / 1.1 / 1e9)
