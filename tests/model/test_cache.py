"""What a sequence's cache holds, how far it can be cut, and which states it refuses."""

import dataclasses

import pytest
import torch

from shoal.config.layer_plan import plan_layers
from shoal.config.schema import ModelConfig
from shoal.errors import SnapshotError
from shoal.model.cache import SequenceCache


@pytest.fixture
def cache(config: ModelConfig) -> SequenceCache:
    return SequenceCache(config, plan_layers(config))


def test_it_holds_rings_of_every_layer_and_rows_of_the_kv_sources(cache: SequenceCache) -> None:
    assert list(cache.rings) == list(range(10))
    assert list(cache.entries) == list(cache.index_keys) == [2, 4, 6]
    assert list(cache.open_groups) == [2, 4]


def test_the_bytes_are_those_of_the_formats(cache: SequenceCache) -> None:
    # 10 rings of 32 rows of 64 + 2 bytes; a page has 128, 128 and 256 rows of 32 + 4 and of 32 + 2 bytes.
    assert cache.nbytes == cache.fixed_nbytes == 10 * 32 * 66
    cache.reserve(257)
    assert cache.nbytes == cache.own_nbytes == 10 * 32 * 66 + 2 * 512 * (36 + 34)


def test_a_released_token_costs_890_bytes(release_config: ModelConfig) -> None:
    cache = SequenceCache(release_config, plan_layers(release_config))
    ratios = {plan.layer_id: plan.compress_ratio for plan in plan_layers(release_config)}
    per_token = sum(
        (rows.format.code_bytes(rows.dim) + rows.format.scale_bytes(rows.dim)) / ratios[layer]
        for held in (cache.entries, cache.index_keys)
        for layer, rows in held.items()
    )
    assert per_token == 890


def test_a_pass_within_the_window_can_be_cut_anywhere(cache: SequenceCache) -> None:
    cache.commit(10)
    cache.commit(32)
    assert [length for length in range(44) if cache.can_truncate(length)] == list(range(10, 43))


def test_a_longer_pass_can_only_be_kept_or_undone(cache: SequenceCache) -> None:
    cache.commit(10)
    cache.commit(33)
    assert [length for length in range(45) if cache.can_truncate(length)] == [10, 43]


def test_cutting_further_back_is_refused(cache: SequenceCache) -> None:
    cache.commit(10)
    cache.commit(2)
    with pytest.raises(AssertionError):
        cache.truncate(9)


def test_a_state_of_another_model_is_refused(cache: SequenceCache, config: ModelConfig) -> None:
    other = dataclasses.replace(config, engram_max_ngram_size=3)
    state = SequenceCache(other, plan_layers(other)).state()
    with pytest.raises(SnapshotError, match=r"`history` of the snapshot is \[2\] torch.int64, expected \[3\]"):
        cache.load(state, 0)


def test_a_state_with_a_part_missing_is_refused(cache: SequenceCache) -> None:
    state = cache.state()
    del state["entries.4.codes"]
    with pytest.raises(SnapshotError, match=r"`entries\.4\.codes` is in only one of them"):
        cache.load(state, 0)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_state_of_another_length_is_refused(cache: SequenceCache, length: int) -> None:
    with pytest.raises(SnapshotError, match=f"at length {length}"):
        cache.load(cache.state(), length)


def test_a_state_of_another_dtype_is_refused(cache: SequenceCache) -> None:
    state = cache.state()
    state["ring.3.codes"] = state["ring.3.codes"].to(torch.int8)
    with pytest.raises(SnapshotError, match=r"`ring\.3\.codes` of the snapshot is .* torch.int8, expected"):
        cache.load(state, 0)


def test_a_refused_state_changes_nothing(cache: SequenceCache) -> None:
    before = cache.state()
    state = {name: torch.ones_like(tensor) for name, tensor in before.items()}
    with pytest.raises(SnapshotError):
        cache.load(state, 5)
    assert cache.length == 0 and all(torch.equal(cache.state()[name], before[name]) for name in before)
