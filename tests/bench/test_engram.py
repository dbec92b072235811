"""The figures of Engram rows, on the miniature."""

import pytest

from shoal.assemble import MINIATURE
from shoal.bench.engram import engram_results
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.plan.disk_probe import DiskRate
from shoal.weights.row_reader import ReaderOptions


@pytest.mark.parametrize("uring", [True, False])
def test_a_token_and_a_prompt_are_measured(uring: bool) -> None:
    plans = plan_layers(load_config(MINIATURE))
    with Checkpoint.open(MINIATURE) as checkpoint:
        token, prompt = engram_results(checkpoint, plans, 4, DiskRate(1e9, True), ReaderOptions(uring))
    assert (token.name, prompt.name) == ("engram_96", "engram_512")
    assert (token.rounds, prompt.rounds) == (15, 3)
    assert token.seconds > 0 and token.more["reads"] >= 2 and token.nbytes >= 2 * 4096
    assert prompt.nbytes > token.nbytes and prompt.ratio > 0
