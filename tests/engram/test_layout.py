import sys
from dataclasses import replace
from typing import Any

import pytest

from shoal.config.schema import ModelConfig
from shoal.engram.layout import check_rows, derive_layout, derive_primes
from shoal.errors import EngramError


def test_release_primes_offsets_and_multipliers_are_the_published_ones(
    release_config: ModelConfig, full_size_golden: dict[str, Any], release_golden: dict[str, Any]
) -> None:
    layout = derive_layout(release_config)
    assert [layer.layer_id for layer in layout.layers] == full_size_golden["layer_ids"] == [1, 14]
    assert [[list(heads) for heads in layer.primes] for layer in layout.layers] == full_size_golden["primes"]
    assert [list(layer.offsets) for layer in layout.layers] == full_size_golden["offsets"]
    assert list(layout.rows) == full_size_golden["rows"] == [384006168, 384016682]
    for layer in layout.layers:
        assert list(layer.buckets) == release_golden["primes"][str(layer.layer_id)]
        assert list(layer.multipliers) == release_golden["multipliers"][str(layer.layer_id)]


def test_miniature_layout_is_the_golden_one(mini_config: ModelConfig, mini_golden: dict[str, Any]) -> None:
    layout = derive_layout(mini_config)
    assert [[list(heads) for heads in layer.primes] for layer in layout.layers] == mini_golden["primes"]
    assert [list(layer.offsets) for layer in layout.layers] == mini_golden["offsets"]
    assert [list(layer.multipliers) for layer in layout.layers] == mini_golden["multipliers"]
    assert layout.rows == (3688, 3904)


def test_a_layer_is_found_by_its_id(mini_config: ModelConfig) -> None:
    layout = derive_layout(mini_config)
    assert layout.layer(4) is layout.layers[1]
    assert (layout.row_width, layout.history_length) == (64, 3)


def test_no_hash_product_leaves_int64(release_config: ModelConfig) -> None:
    for layer in derive_layout(release_config).layers:
        assert max(layer.multipliers) * (release_config.engram_compressed_vocab_size - 1) < 2**63
        assert all(multiplier % 2 for multiplier in layer.multipliers)


def test_no_prime_serves_two_columns(release_config: ModelConfig) -> None:
    buckets = [bucket for layer in derive_layout(release_config).layers for bucket in layer.buckets]
    assert buckets == sorted(set(buckets))


def test_matching_rows_pass(release_config: ModelConfig, mini_config: ModelConfig) -> None:
    check_rows(release_config)
    check_rows(mini_config)


def test_seven_heads_name_declared_and_derived_rows(release_config: ModelConfig) -> None:
    with pytest.raises(EngramError) as raised:
        check_rows(replace(release_config, engram_n_heads=7))
    assert "declared=[384006168, 384016682] derived=[336004849, 336012883]" in raised.value.message


@pytest.mark.parametrize("declared", [(3688, 3903), (3904, 3688), (3688,), (3688, 3904, 1)])
def test_any_other_row_count_fails(mini_config: ModelConfig, declared: tuple[int, ...]) -> None:
    with pytest.raises(EngramError, match="declared="):
        check_rows(replace(mini_config, engram_num_embeddings=declared))


def test_rows_are_checked_without_numpy(release_config: ModelConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    check_rows(release_config)


def test_a_model_without_engram_has_an_empty_layout(mini_config: ModelConfig) -> None:
    bare = replace(mini_config, engram_layer_ids=(), engram_num_embeddings=(), engram_n_heads=0)
    assert derive_layout(bare).layers == ()
    check_rows(bare)


@pytest.mark.parametrize("change", [{"engram_n_heads": 0}, {"engram_max_ngram_size": 1}, {"engram_n_heads": 10**9}])
def test_impossible_columns_are_named(mini_config: ModelConfig, change: dict[str, Any]) -> None:
    with pytest.raises(EngramError, match="`engram_n_heads`"):
        derive_primes(replace(mini_config, **change))


def test_an_empty_compressed_vocabulary_is_named(mini_config: ModelConfig) -> None:
    with pytest.raises(EngramError, match="`engram_compressed_vocab_size` is 0"):
        derive_layout(replace(mini_config, engram_compressed_vocab_size=0))
