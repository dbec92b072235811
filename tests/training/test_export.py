"""The built-in miniature and its training agree: shape, stored values, and both forward passes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from shoal.assemble import MINIATURE, LoadOptions, assemble
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.eval.perplexity import token_nats
from shoal.text.tokenizer import Tokenizer
from training.batches import Batches, Corpus
from training.export import export
from training.geometry import geometry, token_map
from training.model import Miniature
from training.restore import restore
from training.weights import Weights

TEXT = "The capital of France is Paris. 37+48=85. The word of Henry is lamp. The code of Ida is l z i r. " * 6


@pytest.fixture(scope="module")
def weights() -> Weights:
    with Checkpoint.open(MINIATURE) as checkpoint:
        return restore(load_config(MINIATURE), checkpoint)


def test_the_geometry_of_training_is_the_checkpoints() -> None:
    assert geometry(MINIATURE / "tokenizer.json") == load_config(MINIATURE)


def test_what_is_exported_is_read_back_as_it_was(weights: Weights, tmp_path: Path) -> None:
    export(weights, MINIATURE, tmp_path / "out")
    with Checkpoint.open(tmp_path / "out") as checkpoint:
        again = restore(weights.config, checkpoint)
    assert again.state_dict().keys() == weights.state_dict().keys()
    for name, value in again.state_dict().items():
        assert torch.equal(value, weights.state_dict()[name]), name


def test_the_quantised_file_is_as_surprised_as_its_training(weights: Weights) -> None:
    ids = Tokenizer.load(MINIATURE).encode_prompt(TEXT)
    ones = np.ones(len(ids), np.float16)
    corpus = Corpus(np.array(ids, np.uint16), ones, np.array([0, len(ids)]), np.zeros(1, np.uint8))
    batch = Batches(corpus, weights.config, token_map(MINIATURE / "tokenizer.json", weights.config)).build(
        np.array([0])
    )
    model = Miniature(weights, compiled=False)
    with torch.no_grad():
        logits = model.logits(model.forward(batch.ids, batch.rows, sparse=True).hidden)[: len(ids) - 1]
    trained = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]))
    with assemble(LoadOptions(threads=1)) as assembled:
        packed = torch.tensor(token_nats(assembled.engine.model, ids, 512)).mean()
    assert abs(float(trained - packed)) < 0.02
