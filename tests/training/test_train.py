"""Training goes on where it stopped, and learns."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

import training.batches
import training.train
from shoal.assemble import MINIATURE
from shoal.text.tokenizer import Tokenizer
from training.batches import Batch
from training.corpus import KINDS
from training.entries import entries_from_keys
from training.stages import STAGES, Stage
from training.train import STATE, Training, train

STAGE = Stage("short", {"facts": 1.0}, tokens=1000, steps=4, dense=2, warm_up=1)
SENTENCES = [f"The capital of {land} is {town}." for land, town in (("France", "Paris"), ("Japan", "Tokyo"))]


def shrink(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(training.batches, "TOKENS", 128)
    patch.setattr(training.train, "HELD_OUT", 4)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty documents of two sentences, of one kind."""
    directory = tmp_path_factory.mktemp("corpus")
    tokenizer = Tokenizer.load(MINIATURE)
    documents = [[*tokenizer.encode_prompt(SENTENCES[number % 2]), tokenizer.eos_id] for number in range(60)]
    np.save(directory / "tokens.npy", np.concatenate(documents).astype(np.uint16))
    np.save(directory / "learn.npy", np.ones(sum(map(len, documents)), np.float16))
    np.save(directory / "offsets.npy", np.cumsum([0, *map(len, documents)]))
    np.save(directory / "kind.npy", np.zeros(len(documents), np.uint8))
    (directory / "kinds.json").write_text(json.dumps(["facts"]))
    shutil.copy(MINIATURE / "tokenizer.json", directory)
    return directory


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, float], Training]:
    """What was held out cost at first, and a training that was never stopped."""
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        training = started(corpus, tmp_path_factory.mktemp("whole"), STAGE)
        before = training.held_out()
        training.run()
    return before, training


def trained(corpus: Path, out: Path) -> Training:
    training = started(corpus, out, STAGE)
    training.run()
    return training


def started(corpus: Path, out: Path, stage: Stage) -> Training:
    return Training(corpus, corpus / "tokenizer.json", out, stage, seed=0, compiled=False)


def test_training_that_was_stopped_ends_as_one_that_was_not(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: tuple[dict[str, float], Training]
) -> None:
    advance = Training._advance

    def interrupted(self: Training, batch: Batch) -> float:
        if self.step == 2:
            raise KeyboardInterrupt
        return advance(self, batch)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Training, "_advance", interrupted)
        trained(corpus, tmp_path / "parts")
    parts = trained(corpus, tmp_path / "parts")
    for name, value in parts.weights.state_dict().items():
        assert torch.equal(value, whole[1].weights.state_dict()[name]), name


def test_what_is_repeated_is_learned(whole: tuple[dict[str, float], Training]) -> None:
    before, training = whole
    assert training.held_out()["facts"] < before["facts"] - 1


def test_stages_follow_each_other_and_those_that_are_over_are_left(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = replace(STAGE, steps=2, dense=1)
    later = replace(first, name="later", entries_from_keys=True)
    monkeypatch.setattr(training.train, "STAGES", (first, later))
    for stage in (first, later):
        (tmp_path / stage.name).symlink_to(corpus)
    (tmp_path / "tokenizer.json").symlink_to(corpus / "tokenizer.json")
    train(tmp_path, tmp_path / "out", seed=0, compiled=False)
    state = torch.load(tmp_path / "out" / STATE, weights_only=True)
    assert (state["stage"], state["step"]) == ("later", 2)
    train(tmp_path, tmp_path / "out", seed=0, compiled=False)
    again = torch.load(tmp_path / "out" / STATE, weights_only=True)
    assert all(torch.equal(value, again["weights"][name]) for name, value in state["weights"].items())


def test_entries_begin_as_the_keys_of_the_last_layer_that_reads_them(corpus: Path, tmp_path: Path) -> None:
    start = started(corpus, tmp_path, STAGE)
    batch = start.batches.build(np.arange(16))
    entries_from_keys(start.plain, [batch])
    inputs, weights = start.plain.forward(batch.ids, batch.rows, sparse=False).inputs, start.weights
    entries = inputs[3] @ weights.get_parameter("compressor_wkv")[1].T
    keys = inputs[5] @ weights.get_parameter("wkv")[5].T
    assert functional.cosine_similarity(entries, keys).mean() > 0.8


def test_the_rate_rises_stays_and_falls() -> None:
    stage = replace(STAGE, steps=100, warm_up=10, rate=0.5, falling=0.5)
    assert [round(stage.share(step), 3) for step in (0, 9, 50, 75, 100)] == [0.05, 0.5, 0.5, 0.25, 0.0]
    assert [replace(stage, falling=0.0).share(step) for step in (50, 99)] == [0.5, 0.5]


def test_every_stage_names_kinds_that_there_are_and_shares_that_are_whole() -> None:
    for stage in STAGES:
        assert set(stage.shares) <= {kind.name for kind in KINDS}
        assert sum(stage.shares.values()) == pytest.approx(1)
