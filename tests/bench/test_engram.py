"""The figures of Engram rows, on the miniature."""

import os
import shutil
from pathlib import Path

import pytest

from shoal.assemble import MINIATURE
from shoal.bench.engram import engram_results
from shoal.bench.result import Result, Skipped
from shoal.bench.shards import shards_of
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.plan.disk_probe import DiskProbe
from shoal.weights.row_reader import ReaderOptions

PLANS = plan_layers(load_config(MINIATURE))


@pytest.mark.parametrize("uring", [True, False])
def test_a_token_and_a_prompt_are_measured(uring: bool) -> None:
    with Checkpoint.open(MINIATURE) as checkpoint, DiskProbe(shards_of(checkpoint)) as probe:
        token, prompt = engram_results(checkpoint, PLANS, 4, probe, ReaderOptions(uring))
        assert len(probe.runs) == 15 + 3
    assert isinstance(token, Result) and isinstance(prompt, Result)
    assert (token.name, prompt.name) == ("engram_96", "engram_512")
    assert (token.rounds + token.dropped, prompt.rounds + prompt.dropped) == (15, 3)
    reads = token.more["reads"]
    assert isinstance(reads, int) and reads >= 2
    assert token.seconds > 0 and token.nbytes >= 2 * 4096
    assert prompt.nbytes > token.nbytes and prompt.ratio > 0


def test_a_table_with_a_hole_is_not_measured_and_named(tmp_path: Path) -> None:
    directory = tmp_path / "sparse"
    shutil.copytree(MINIATURE, directory)
    with Checkpoint.open(MINIATURE) as checkpoint:
        name = next(name for name in checkpoint.names() if name.endswith("engram.embed.weight"))
        entry = checkpoint.entry(name)
    shard = directory / entry.path.name
    # All up to a page in the middle of the table, and all after the next.
    middle = (entry.start + entry.end) // 2 // 4096 * 4096
    content = shard.read_bytes()
    shard.unlink()
    with shard.open("wb") as file:
        file.write(content[:middle])
        file.seek(middle + 4096)
        file.write(content[middle + 4096 :])
        os.fsync(file.fileno())
    with Checkpoint.open(directory) as checkpoint, DiskProbe(shards_of(checkpoint)) as probe:
        rows = list(engram_results(checkpoint, PLANS, 4, probe))
    reason = f"`{name}` has holes of a sparse file, which no disk is read for"
    assert rows == [Skipped("engram_96", reason), Skipped("engram_512", reason)]


def test_a_model_without_tables_has_no_figures() -> None:
    plans = [plan for plan in PLANS if plan.engram_index is None]
    with Checkpoint.open(MINIATURE) as checkpoint, DiskProbe(shards_of(checkpoint)) as probe:
        rows = list(engram_results(checkpoint, plans, 4, probe))
    assert [type(row) for row in rows] == [Skipped, Skipped]
