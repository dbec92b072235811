"""The two models every Engram test looks at: the release and the random miniature."""

import json
from pathlib import Path
from typing import Any

import pytest

from miniature import MINI
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.engram.token_map import TokenMap

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def release_config() -> ModelConfig:
    return load_config(DATA / "release" / "config.json")


@pytest.fixture(scope="session")
def mini_config() -> ModelConfig:
    return load_config(MINI)


@pytest.fixture(scope="session")
def release_tokenizer_file() -> Path:
    return DATA / "release" / "tokenizer.json"


@pytest.fixture(scope="session")
def mini_tokenizer_file() -> Path:
    return MINI / "tokenizer.json"


@pytest.fixture(scope="session")
def release_map(release_config: ModelConfig, release_tokenizer_file: Path) -> TokenMap:
    return TokenMap.load(release_tokenizer_file, release_config, None)


@pytest.fixture(scope="session")
def release_golden() -> dict[str, Any]:
    return _read("release/golden/engram_golden.json")


@pytest.fixture(scope="session")
def full_size_golden() -> dict[str, Any]:
    return _read("oracle/goldens/engram_full_size.json")


@pytest.fixture(scope="session")
def mini_golden() -> dict[str, Any]:
    return _read("oracle/goldens/engram_mini.json")


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return content
