from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.config.layouts import load_config
from shoal.config.schema import NESTED_ONLY_FIELDS, REQUIRED_FIELDS, ModelConfig

RELEASE = Path(__file__).parent.parent / "data" / "release"
CONFIG = load_config(RELEASE)


def test_there_are_64_required_fields_and_12_others() -> None:
    assert (len(REQUIRED_FIELDS), len(NESTED_ONLY_FIELDS), len(fields(ModelConfig))) == (64, 12, 76)


def test_derived_sizes_are_the_released_ones() -> None:
    assert CONFIG.num_all_layers == 43
    assert CONFIG.context_length == 1048576
    assert (CONFIG.num_engram_columns, CONFIG.engram_dim) == (24, 6144)
    assert (CONFIG.num_draft_experts, CONFIG.num_active_draft_experts) == (128, 3)
    assert CONFIG.has_engram and CONFIG.has_draft and CONFIG.has_candidates and CONFIG.has_vision


def test_a_stated_context_length_wins_over_the_yarn_range() -> None:
    assert replace(CONFIG, max_position_embeddings=4096).context_length == 4096
    assert replace(CONFIG, max_position_embeddings=None, rope_factor=2.5).context_length == 163840


def test_zero_draft_experts_are_the_backbones() -> None:
    config = replace(CONFIG, dspark_n_routed_experts=0, dspark_n_activated_experts=0)
    assert (config.num_draft_experts, config.num_active_draft_experts) == (384, 6)


def test_features_can_be_off() -> None:
    config = replace(CONFIG, engram_layer_ids=(), dspark_block_size=0, candidate_source_layer=-1, vision_n_layers=0)
    assert not (config.has_engram or config.has_draft or config.has_candidates or config.has_vision)


@settings(deadline=None)
@given(st.sampled_from(REQUIRED_FIELDS))
def test_a_changed_field_is_the_one_that_differs(field: str) -> None:
    change: dict[str, Any] = {field: "changed"}
    changed = replace(CONFIG, **change)
    assert CONFIG.differs_from(changed) == {field: (getattr(CONFIG, field), "changed")}


def test_the_same_number_in_another_type_does_not_differ() -> None:
    assert CONFIG.differs_from(replace(CONFIG, rope_theta=10000.0)) == {}


@settings(deadline=None)
@given(st.sets(st.integers(0, 40)), st.integers(0, 45))
def test_a_source_is_the_last_at_or_before_the_layer(sources: set[int], layer: int) -> None:
    config = replace(CONFIG, kv_source_layers=tuple(sorted(sources)), index_source_layers=tuple(sorted(sources)))
    wanted = max((source for source in sources if source <= layer), default=None)
    assert config.kv_source_of(layer) == config.index_source_of(layer) == wanted


def test_a_config_cannot_be_edited() -> None:
    with pytest.raises(AttributeError):
        CONFIG.dim = 1  # type: ignore[misc]
