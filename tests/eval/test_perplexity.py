"""−ln of probabilities, on scripted logits and on the miniature."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch

from miniature import MINI
from shoal.assemble import Assembled, LoadOptions, assemble
from shoal.engine.engine import Engine
from shoal.errors import CheckpointError
from shoal.eval import perplexity
from shoal.eval.perplexity import BUCKETS, Perplexity, bucket_name, token_nats
from shoal.model.batch import Batch

IDS = [0, 331, 419, 7, 8, 9, 10, 1]


@pytest.fixture(scope="module")
def miniature() -> Iterator[Assembled]:
    with assemble(LoadOptions(MINI, threads=1)) as model:
        yield model


def test_it_is_e_to_the_mean() -> None:
    assert Perplexity(2 * math.log(8.0), 2).value == pytest.approx(8.0)
    assert Perplexity(0.0, 0).value is None
    assert Perplexity(1e6, 1).value is None


def test_the_buckets_follow_each_other() -> None:
    assert [bucket_name(bucket) for bucket in BUCKETS] == ["0-31", "32-63", "64-127", "128-255", "256-511", "512+"]
    assert all(one[1] == other[0] for one, other in pairwise(BUCKETS))


def test_a_model_that_knows_nothing_guesses_among_the_vocabulary(saying: Callable[..., Engine]) -> None:
    model = saying().model
    assert token_nats(model, IDS, 4) == pytest.approx([math.log(model.config.vocab_size)] * 7)


def test_each_token_is_predicted_from_those_before_it(miniature: Assembled) -> None:
    nats = token_nats(miniature.engine.model, IDS, 2048)
    assert len(nats) == len(IDS) - 1
    for end in (2, 5):
        assert token_nats(miniature.engine.model, IDS[:end], 2048) == nats[: end - 1]
    logits = next_logits(miniature, IDS[:-1])
    assert nats[-1] == pytest.approx(float(torch.logsumexp(logits, 0) - logits[IDS[-1]]))


def next_logits(model: Assembled, ids: list[int]) -> torch.Tensor:
    cache = model.backbone.new_cache()
    return model.backbone.forward(Batch.build([ids], [cache]), [cache]).logits[0].double()


def test_chunks_change_nothing(miniature: Assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = token_nats(miniature.engine.model, IDS, 2048)
    assert token_nats(miniature.engine.model, IDS, 3) == whole
    monkeypatch.setattr(perplexity, "MOST_LOGITS_NBYTES", 4 * 1024 * 2)
    assert token_nats(miniature.engine.model, IDS, 2048) == whole


def test_probabilities_sum_to_one(miniature: Assembled) -> None:
    row = next_logits(miniature, IDS[:3]).float().numpy()
    assert sum(math.exp(-perplexity._nats(row, token)) for token in range(len(row))) == pytest.approx(1.0)


def test_a_logit_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="not finite"):
        perplexity._nats(np.array([0.0, np.nan], dtype=np.float32), 0)
