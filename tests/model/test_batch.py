"""Batches: spans, positions and the rows whose logits are wanted."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.config.layer_plan import plan_layers
from shoal.config.schema import ModelConfig
from shoal.model.batch import Batch, Span
from shoal.model.cache import SequenceCache


@dataclass(frozen=True)
class Caches:
    config: ModelConfig

    def at(self, *lengths: int) -> list[SequenceCache]:
        caches = [SequenceCache(self.config, plan_layers(self.config)) for _ in lengths]
        for cache, length in zip(caches, lengths, strict=True):
            cache.length = length
        return caches


@pytest.fixture
def caches(config: ModelConfig) -> Caches:
    return Caches(config)


def test_sequences_lie_end_to_end_at_their_own_positions(caches: Caches) -> None:
    batch = Batch.build([[5, 6], [7], [8, 9, 10]], caches.at(0, 100, 31))
    assert batch.token_ids.tolist() == [5, 6, 7, 8, 9, 10]
    assert batch.spans == (Span(0, 2, 0), Span(2, 3, 100), Span(3, 6, 31))
    assert batch.positions.tolist() == [0, 1, 100, 31, 32, 33]


def test_the_last_row_of_each_sequence_is_wanted_unless_all_are(caches: Caches) -> None:
    chunks, held = [[5, 6], [7], [8, 9, 10]], caches.at(0, 0, 0)
    assert Batch.build(chunks, held).logit_rows.tolist() == [1, 2, 5]
    assert Batch.build(chunks, held, logits="all").logit_rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert Batch.build(chunks, held, logits=[False, True, True]).logit_rows.tolist() == [2, 5]
    assert Batch.build(chunks, held, logits=[False] * 3).logit_rows.tolist() == []


@given(st.lists(st.lists(st.integers(0, 1023), min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_span_picks_its_own_tokens(config: ModelConfig, chunks: list[list[int]]) -> None:
    batch = Batch.build(chunks, Caches(config).at(*range(len(chunks))))
    assert [batch.token_ids[span.rows].tolist() for span in batch.spans] == chunks
    assert [span.count for span in batch.spans] == [len(chunk) for chunk in chunks]


def test_an_empty_chunk_is_refused(caches: Caches) -> None:
    with pytest.raises(AssertionError):
        Batch.build([[1], []], caches.at(0, 0))


def test_one_cache_twice_is_refused(caches: Caches) -> None:
    (cache,) = caches.at(0)
    with pytest.raises(AssertionError):
        Batch.build([[1], [2]], [cache, cache])
