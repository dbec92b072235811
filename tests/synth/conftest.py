"""A synthesised miniature, and a tensor of every kind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from miniature import MINI
from shoal.checkpoint.inventory import TensorSpec, inventory
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.synth.presets import Preset, Reduction
from shoal.synth.synthesis import SynthOptions, decide

RELEASE = Path(__file__).parents[1] / "data" / "release"

Contents = dict[str, bytes]


@pytest.fixture(scope="session")
def mini_config() -> ModelConfig:
    return load_config(MINI)


@pytest.fixture(scope="session")
def release_config() -> ModelConfig:
    return load_config(RELEASE)


@pytest.fixture(scope="session")
def mini_specs(mini_config: ModelConfig) -> dict[str, TensorSpec]:
    return {spec.name: spec for spec in inventory(mini_config)}


@pytest.fixture(scope="session")
def miniature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preset with the random miniature's configuration; tests leave it as it is."""
    out = tmp_path_factory.mktemp("synth") / "miniature"
    decide(SynthOptions(out, Reduction(Preset.MINIATURE), config=MINI, tokenizer=MINI)).write()
    return out


@pytest.fixture(scope="session")
def contents() -> Callable[[Path], Contents]:
    """Every file of a directory by its name."""

    def read(directory: Path) -> Contents:
        files = [path for path in directory.rglob("*") if path.is_file()]
        return {str(path.relative_to(directory)): path.read_bytes() for path in files}

    return read
