from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal.errors
from miniature import MINI
from shoal.checkpoint.inventory import inventory
from shoal.config.engram_rows import check_rows
from shoal.config.layer_plan import Mode, plan_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.errors import ConfigError, EngramError, OptionError
from shoal.synth.presets import Preset, Reduction, choose_layers, keep_layers, with_experts

DATA = Path(shoal.errors.__file__).parent / "data"
CONFIGS = {"mini": load_config(MINI), "release": load_config(DATA / "release")}
GIB = 2**30


def nbytes(config: ModelConfig) -> int:
    return sum(spec.nbytes for spec in inventory(config))


def test_the_packaged_release_config_is_the_released_one(release_config: ModelConfig) -> None:
    assert load_config(DATA / "release") == release_config
    assert load_config(DATA / "release" / "inference").differs_from(release_config).keys() <= {
        "num_key_value_heads", "rope_type", "max_position_embeddings", "norm_topk_prob", "topk_method", "hidden_act",
        "storage_dtype", "bos_token_id", "eos_token_id", "pad_token_id", "weight_block_size", "scale_fmt",
    }  # fmt: skip


@pytest.mark.parametrize("preset", [Preset.MINIATURE, Preset.SPARSE])
def test_miniature_and_sparse_change_nothing(preset: Preset, release_config: ModelConfig) -> None:
    assert Reduction(preset).apply(release_config) == (release_config, tuple(range(40)))


def test_slim_is_all_layers_at_released_width_in_about_17_gib(release_config: ModelConfig) -> None:
    config, kept = Reduction(Preset.SLIM).apply(release_config)
    assert kept == tuple(range(40))
    changed = {"n_routed_experts", "dspark_n_routed_experts", "engram_vocab_size", "engram_num_embeddings"}
    assert config.differs_from(release_config).keys() == changed | {"vision_n_layers"}
    assert (config.n_routed_experts, config.dspark_n_routed_experts) == (10, 10)
    assert 16.5 * GIB < nbytes(config) < 17.5 * GIB


def test_four_layers_of_the_release_cover_window_engram_full_and_reuse(release_config: ModelConfig) -> None:
    config, kept = Reduction(Preset.LAYERS).apply(release_config)
    plans = plan_layers(config)
    assert kept == (0, 1, 2, 3)
    assert [plan.mode for plan in plans] == [Mode.SWA, Mode.SWA, Mode.FULL, Mode.REUSE]
    assert [plan.engram_index for plan in plans] == [None, 0, None, None]
    assert (config.n_routed_experts, config.has_draft, config.has_vision) == (384, False, False)


@pytest.mark.parametrize(
    ("count", "kept"),
    [
        (1, (0,)),
        (5, (0, 1, 2, 3, 14)),
        (6, (0, 1, 2, 3, 14, 20)),
        (8, (0, 1, 2, 3, 14, 20, 21, 24)),
        (9, (0, 1, 2, 3, 4, 14, 20, 21, 24)),
        (40, tuple(range(40))),
    ],
)
def test_one_layer_of_each_kind_comes_before_a_second_one(
    count: int, kept: tuple[int, ...], release_config: ModelConfig
) -> None:
    assert choose_layers(release_config, count) == kept


def test_kept_layers_are_what_they_were(release_config: ModelConfig) -> None:
    kept = choose_layers(release_config, 8)
    before, after = plan_layers(release_config), plan_layers(keep_layers(release_config, kept))
    for new, old in enumerate(kept):
        plan, was = after[new], before[old]
        assert (plan.mode, plan.compress_ratio) == (was.mode, was.compress_ratio)
        sources = (plan.kv_source, plan.index_source, plan.candidate_source)
        assert tuple(None if s is None else kept[s] for s in sources) == (
            was.kv_source, was.index_source, was.candidate_source,
        )  # fmt: skip
        assert (plan.engram_index is None, plan.is_candidate_source) == (
            was.engram_index is None, was.is_candidate_source,
        )  # fmt: skip


@given(
    name=st.sampled_from(["mini", "release"]),
    preset=st.sampled_from([Preset.SLIM, Preset.LAYERS]),
    layers=st.none() | st.integers(1, 10),
    experts=st.none() | st.integers(6, 16),
)
def test_every_reduction_is_consistent(name: str, preset: Preset, layers: int | None, experts: int | None) -> None:
    config, kept = Reduction(preset, experts, layers).apply(CONFIGS[name])
    assert config.verify() == []
    check_rows(config)
    assert len(kept) == config.n_layers == (layers or (4 if preset is Preset.LAYERS else CONFIGS[name].n_layers))
    assert config.n_routed_experts == (experts or {"slim": 10}.get(preset.value, CONFIGS[name].n_routed_experts))
    assert config.has_draft == (preset is Preset.SLIM)


def test_a_layer_takes_its_own_sources_along_when_ratios_alternate(mini_config: ModelConfig) -> None:
    config = replace(
        mini_config,
        n_layers=6,
        compress_ratios=(0, 2, 1, 2, 2, 2, 0, 0, 0),
        kv_source_layers=(1, 2, 3),
        index_source_layers=(1, 2, 3),
        candidate_source_layer=-1,
        dspark_target_layer_ids=(3, 4, 5),
        engram_layer_ids=(),
        engram_num_embeddings=(),
    )
    assert config.verify() == []
    for count in range(1, 7):
        assert Reduction(Preset.LAYERS, layers=count).apply(config)[0].verify() == []


def test_as_many_experts_as_a_token_uses_are_the_fewest(release_config: ModelConfig) -> None:
    assert with_experts(release_config, 6).verify() == []
    with pytest.raises(OptionError, match=r"`experts` is 5, expected 6 \(active for a token\) to 384"):
        with_experts(release_config, 5)
    with pytest.raises(OptionError, match="`experts` is 385"):
        with_experts(release_config, 385)


def test_more_layers_than_there_are_is_refused(release_config: ModelConfig) -> None:
    with pytest.raises(OptionError, match="`layers` is 41, expected at most the 40"):
        Reduction(Preset.LAYERS, layers=41).apply(release_config)


@pytest.mark.parametrize(("experts", "layers"), [(8, None), (None, 2)])
@pytest.mark.parametrize("preset", [Preset.MINIATURE, Preset.SPARSE])
def test_presets_that_cut_nothing_refuse_to_cut(preset: Preset, experts: int | None, layers: int | None) -> None:
    with pytest.raises(OptionError, match="which cuts nothing"):
        Reduction(preset, experts, layers)


@pytest.mark.parametrize(("experts", "layers"), [(0, None), (None, -1)])
def test_counts_below_one_are_refused(experts: int | None, layers: int | None) -> None:
    with pytest.raises(OptionError, match="expected 1 or more"):
        Reduction(Preset.SLIM, experts, layers)


def test_a_config_that_contradicts_itself_is_refused(mini_config: ModelConfig) -> None:
    with pytest.raises(ConfigError, match="the config contradicts itself: `n_activated_experts` is 17"):
        Reduction(Preset.SLIM).apply(replace(mini_config, n_activated_experts=17))
    with pytest.raises(EngramError, match=r"declared=\[1, 2\]"):
        Reduction(Preset.SPARSE).apply(replace(mini_config, engram_num_embeddings=(1, 2)))
