"""Training goes on where it stopped, and learns."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import training.batches
import training.train
from shoal.assemble import MINIATURE
from shoal.text.tokenizer import Tokenizer
from training.batches import Batch
from training.train import Plan, Training

STEPS = 4
SENTENCES = [f"The capital of {land} is {town}." for land, town in (("France", "Paris"), ("Japan", "Tokyo"))]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training.batches, "TOKENS", 128)
    monkeypatch.setattr(training.train, "HELD_OUT", 4)
    monkeypatch.setattr(training.train, "WARM_UP", 1)


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


def trained(corpus: Path, out: Path) -> Training:
    training = Training(corpus, out, Plan(STEPS, seed=0), compiled=False)
    training.run()
    return training


def test_training_that_was_stopped_ends_as_one_that_was_not(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained(corpus, tmp_path / "whole")
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
        assert torch.equal(value, whole.weights.state_dict()[name]), name


def test_what_is_repeated_is_learned(corpus: Path, tmp_path: Path) -> None:
    training = Training(corpus, tmp_path, Plan(STEPS, seed=0), compiled=False)
    before = training.held_out()
    training.run()
    assert training.held_out()["facts"] < before["facts"] - 1
