from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniature import MINI
from shoal.config.layer_plan import LayerPlan, Mode, plan_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.errors import ConfigError

TESTS = Path(__file__).parent.parent
RELEASE = load_config(TESTS / "data" / "release")
PLANS = plan_layers(RELEASE)
MINIATURE_PLANS = plan_layers(load_config(MINI))


def ids(plans: tuple[LayerPlan, ...], mode: Mode) -> list[int]:
    return [plan.layer_id for plan in plans if plan.mode is mode]


def test_the_released_layers_have_the_roles_of_the_report() -> None:
    assert ids(PLANS, Mode.SWA) == [0, 1, 40, 41, 42]
    assert ids(PLANS, Mode.FULL) == [2, 8, 14, 20]
    assert ids(PLANS, Mode.REINDEX) == [24, 28, 32, 36]
    assert Counter(plan.mode for plan in PLANS)[Mode.REUSE] == 30
    assert [plan.layer_id for plan in PLANS] == list(range(43))


def test_the_miniature_has_every_mode() -> None:
    assert [plan.mode.value for plan in MINIATURE_PLANS] == [
        "SWA", "SWA", "Full", "Reuse", "Full", "Reuse", "Full", "Reuse", "Reindex", "Reuse",
        "SWA", "SWA", "SWA",
    ]  # fmt: skip


def test_a_layer_follows_the_last_source_at_or_before_it() -> None:
    assert [plan.kv_source for plan in PLANS] == ([None] * 2 + [2] * 6 + [8] * 6 + [14] * 6 + [20] * 20 + [None] * 3)
    assert [plan.index_source for plan in PLANS[20:40]] == [layer for layer in (20, 24, 28, 32, 36) for _ in range(4)]


def test_only_later_index_sources_select_within_the_candidates() -> None:
    assert [plan.layer_id for plan in PLANS if plan.is_candidate_source] == [20]
    restricted = {plan.layer_id: plan.candidate_source for plan in PLANS if plan.candidate_source is not None}
    assert restricted == {24: 20, 28: 20, 32: 20, 36: 20}


def test_without_a_candidate_source_nobody_is_restricted() -> None:
    plans = plan_layers(replace(RELEASE, candidate_source_layer=-1))
    assert not any(plan.is_candidate_source or plan.candidate_source is not None for plan in plans)


def test_engram_layers_know_their_table() -> None:
    assert {plan.layer_id: plan.engram_index for plan in PLANS if plan.engram_index is not None} == {
        1: 0,
        14: 1,
    }


def test_draft_layers_are_named_apart_and_read_the_last_backbone_layers() -> None:
    assert [plan.prefix for plan in PLANS[38:]] == ["layers.38", "layers.39", "mtp.0", "mtp.1", "mtp.2"]
    assert [plan.layer_id for plan in PLANS if plan.is_draft] == [40, 41, 42]
    assert [plan.layer_id for plan in PLANS if plan.is_draft_target] == [37, 38, 39]


def test_what_a_layer_holds_follows_from_its_mode() -> None:
    assert [plan.layer_id for plan in PLANS if plan.owns_kv] == list(RELEASE.kv_source_layers)
    assert [plan.layer_id for plan in PLANS if plan.scores] == list(RELEASE.index_source_layers)
    assert [plan.layer_id for plan in PLANS if plan.uses_yarn] == list(range(2, 40))


@pytest.mark.parametrize("change", [{"n_layers": 39}, {"kv_source_layers": (8, 14, 20)}, {"n_layers": 2**62}])
def test_lists_that_disagree_have_no_plan(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="the lists of layers disagree"):
        plan_layers(replace(RELEASE, **change))  # type: ignore[arg-type]


@st.composite
def consistent_configs(draw: st.DrawFn) -> ModelConfig:
    """Groups of layers: one KV source each, some Reindex, some Reuse, a few window layers before."""
    ratios, kv_sources, index_sources = [0] * draw(st.integers(0, 3)), [], []
    for _ in range(draw(st.integers(1, 4))):
        ratio = draw(st.sampled_from([1, 2]))
        kv_sources.append(len(ratios))
        for is_index_source in [True, *draw(st.lists(st.booleans(), max_size=5))]:
            index_sources += [len(ratios)] if is_index_source else []
            ratios.append(ratio)
    later = [source for source in index_sources if source >= kv_sources[-1]]
    return replace(
        RELEASE,
        n_layers=len(ratios),
        compress_ratios=(*ratios, 0, 0, 0),
        kv_source_layers=tuple(kv_sources),
        index_source_layers=tuple(index_sources),
        candidate_source_layer=draw(st.sampled_from([-1, *later])),
        dspark_target_layer_ids=(len(ratios) - 1,),
        engram_layer_ids=(0,),
    )


@settings(deadline=None)
@given(consistent_configs())
def test_sources_of_any_consistent_config_are_sources_of_the_same_ratio(config: ModelConfig) -> None:
    plans = plan_layers(config)
    for plan in plans[: config.n_layers]:
        if plan.mode is Mode.SWA:
            assert plan.kv_source is plan.index_source is None
            continue
        assert plan.kv_source is not None and plan.index_source is not None
        assert plan.kv_source <= plan.index_source <= plan.layer_id
        assert plans[plan.kv_source].owns_kv and plans[plan.index_source].scores
        assert plans[plan.kv_source].compress_ratio == plan.compress_ratio
        restricted = config.has_candidates and plan.scores and plan.layer_id > config.candidate_source_layer
        assert plan.candidate_source == (config.candidate_source_layer if restricted else None)
