"""Experts read whole beside the probe, on the random miniature."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_experts import FakeSource
from miniature import MINI
from shoal.bench import expert_read
from shoal.bench.expert_read import EXPERTS_A_ROUND, ROUNDS, ExpertReads, expert_result
from shoal.bench.result import Result, Skipped
from shoal.bench.shards import shards_of
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.errors import FileChangedError
from shoal.plan.disk_probe import DiskProbe
from shoal.plan.stored import count_stored
from shoal.weights.expert_key import Key
from shoal.weights.stored_experts import StoredExperts
from watchdog import within

CONFIG = load_config(MINI)
PLANS = [plan for plan in plan_layers(CONFIG) if not plan.is_draft]


@pytest.fixture
def checkpoint() -> Iterator[Checkpoint]:
    with Checkpoint.open(MINI) as opened:
        yield opened


@pytest.fixture
def probe() -> Iterator[DiskProbe]:
    with Checkpoint.open(MINI) as opened, DiskProbe(shards_of(opened)) as made:
        yield made


def test_an_expert_s_seconds_bytes_and_processor_time_are_a_row(checkpoint: Checkpoint, probe: DiskProbe) -> None:
    said = list[str]()
    row = expert_result(checkpoint, CONFIG, PLANS, probe, said.append)
    assert isinstance(row, Result)
    assert (row.name, row.rounds + row.dropped, said) == ("expert_read", ROUNDS, [])
    # Whole pages, a little more than what is stored.
    stored = count_stored(CONFIG).expert_nbytes
    assert stored <= row.nbytes <= stored + 2 * 4096 * 6
    assert row.seconds > 0 and row.ratio == row.value > 0
    assert isinstance(row.more["cpu_ms"], float) and row.more["cpu_ms"] > 0
    assert f"{row.more['cpu_ms']:.2f} ms of processor an expert" in row.note
    # A probe before every round, the one that warms up too.
    assert len(probe.runs) == 2 * ROUNDS + 1
    assert isinstance(row.more["cpu_ms_again"], float) and row.more["cpu_ms_again"] > 0


def test_no_expert_is_read_twice_before_all_others_were(checkpoint: Checkpoint, probe: DiskProbe) -> None:
    read = list[Key]()
    source = StoredExperts(checkpoint, CONFIG, PLANS)
    source.accept = lambda key, room, has_nan: read.append(key)  # type: ignore[method-assign]
    keys = source.keys[: 2 * EXPERTS_A_ROUND]
    with ExpertReads(source, keys, num_threads=1) as reads:
        for _ in range(2):
            reads.round(probe)
    assert sorted(read) == sorted(keys)
    assert len({layer for layer, _ in read[:EXPERTS_A_ROUND]}) > 1


def test_what_has_come_before_comes_again(checkpoint: Checkpoint, probe: DiskProbe) -> None:
    read = list[Key]()
    source = StoredExperts(checkpoint, CONFIG, PLANS)
    source.accept = lambda key, room, has_nan: read.append(key)  # type: ignore[method-assign]
    with ExpertReads(source, source.keys) as reads:
        for step in (reads.round, reads.round, reads.round_again, reads.round_again):
            step(probe)
    half = 2 * EXPERTS_A_ROUND
    assert sorted(read[:half]) == sorted(read[half:]) and len(set(read[:half])) == half


def test_a_read_that_fails_is_the_problem_of_the_round(probe: DiskProbe) -> None:
    source = FakeSource()
    source.failing.update(source.keys)
    with ExpertReads(source, source.keys) as reads, pytest.raises(FileChangedError, match="became unreadable"):
        within(lambda: reads.round(probe), 60)


def hollow(directory: Path) -> Path:
    """The miniature with headers and nothing else."""
    shutil.copytree(MINI, directory)
    for shard in directory.glob("*.safetensors"):
        size = shard.stat().st_size
        with shard.open("rb") as file:
            length = file.read(8)
            header = length + file.read(int.from_bytes(length, "little"))
        shard.unlink()
        with shard.open("wb") as file:
            file.write(header)
            file.truncate(size)
            os.fsync(file.fileno())
    return directory


def test_experts_that_are_holes_are_never_read(tmp_path: Path, probe: DiskProbe) -> None:
    with Checkpoint.open(hollow(tmp_path / "sparse")) as sparse:
        row = expert_result(sparse, CONFIG, PLANS, probe, lambda text: None)
    assert isinstance(row, Skipped)
    assert "experts are holes of sparse files" in row.reason


def test_some_holes_are_said_and_left_out(
    checkpoint: Checkpoint, probe: DiskProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expert_read, "stored_keys", lambda source: source.keys[3:])
    monkeypatch.setattr(expert_read, "ROUNDS", 1)
    said = list[str]()
    row = expert_result(checkpoint, CONFIG, PLANS, probe, said.append)
    assert isinstance(row, Result) and row.more["holes"] == 3
    assert said == [
        f"3 of {CONFIG.n_layers * CONFIG.n_routed_experts:,} experts are holes of sparse files: they are not read"
    ]
