"""What layers make for a whole model."""

import pytest

from shoal.bench.prefill import Extrapolation, count_kinds, kind_of
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.synth.presets import RELEASE, Preset, Reduction


def test_each_kind_counts_as_often_as_the_model_has_it() -> None:
    found = Extrapolation({"a": 2.0, "b": 10.0}, 1.0, {"a": 3, "b": 1})
    assert found.seconds == 1 + 3 * 2 + 10
    assert found.missing == ()


def test_a_kind_that_was_not_measured_takes_the_mean_and_is_named() -> None:
    found = Extrapolation({"a": 2.0, "b": 4.0}, 0.0, {"a": 1, "c": 2})
    assert found.seconds == 2 + 2 * 3
    assert found.missing == ("c",)


def test_the_release_has_forty_layers_of_eight_kinds() -> None:
    kinds = count_kinds(load_config(RELEASE))
    assert sum(kinds.values()) == 40
    assert len(kinds) == 8


@pytest.mark.parametrize("layers", [1, 4, 8])
def test_a_layers_checkpoint_has_kinds_of_the_release(layers: int) -> None:
    config = load_config(RELEASE)
    reduced, _ = Reduction(Preset.LAYERS, layers=layers).apply(config)
    kinds = {kind_of(plan) for plan in plan_layers(reduced)}
    assert len(kinds) == layers
    assert kinds <= set(count_kinds(config))
