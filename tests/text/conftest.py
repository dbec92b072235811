"""The release's tokenizer and the random miniature's."""

import json
from pathlib import Path
from typing import Any

import pytest

from miniature import MINI
from shoal.text.grammar_vocabulary import GrammarVocabulary
from shoal.text.tokenizer import Tokenizer

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def release() -> Tokenizer:
    return Tokenizer.load(DATA / "release", 129280)


@pytest.fixture(scope="session")
def mini() -> Tokenizer:
    return Tokenizer.load(MINI, 1024)


@pytest.fixture(scope="session", params=["release", "mini"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    loaded: Tokenizer = request.getfixturevalue(request.param)
    return loaded


@pytest.fixture
def mini_json() -> dict[str, Any]:
    """The miniature's tokenizer.json, to spoil."""
    content: dict[str, Any] = json.loads((MINI / "tokenizer.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="session")
def vocabulary(mini: Tokenizer) -> GrammarVocabulary:
    """The miniature's, with more logits than there are ids, as a padded head has."""
    return GrammarVocabulary(mini, 1030)
