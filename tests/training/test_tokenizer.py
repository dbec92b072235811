"""The miniature's tokenizer: the release's shape, digits alone, markers last."""

import json
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import training.tokenizer
from shoal.text.chat import ChatOptions, render_chat
from shoal.text.tokenizer import Tokenizer
from training.corpus import documents
from training.corpus.tool_table import TOOLS
from training.corpus.words import LETTERS, NAMES, WORDS
from training.tokenizer import VOCAB_SIZE, write_tokenizer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(path)
    return path


@pytest.fixture(scope="module")
def tokenizer(directory: Path) -> Tokenizer:
    return Tokenizer.load(directory, VOCAB_SIZE)


@given(text=st.text())
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(text=st.text(alphabet="0123456789 +=.ab"))
def test_a_digit_is_one_token(tokenizer: Tokenizer, text: str) -> None:
    pieces = [tokenizer.decode([token]) for token in tokenizer.encode(text)]
    assert all(piece.isdigit() <= (len(piece) == 1) for piece in pieces)
    assert sum(piece.isdigit() for piece in pieces) == sum(character.isdigit() for character in text)


def test_documents_come_back(tokenizer: Tokenizer) -> None:
    for document in islice(documents(8), 300):
        assert tokenizer.decode(tokenizer.encode(document.text())) == document.text()


def test_what_is_copied_is_one_token_each(tokenizer: Tokenizer) -> None:
    assert {len(tokenizer.encode(f" {word}")) for word in (*LETTERS, *NAMES, *WORDS)} == {1}


def test_the_constant_text_about_tools_is_short(tokenizer: Tokenizer) -> None:
    message = [{"role": "user", "content": "x"}]
    one, two = (len(render_chat(tokenizer, message, ChatOptions(tools=[TOOLS[0].schema()] * n))) for n in (1, 2))
    assert one - (two - one) <= 230


def test_its_file_has_the_form_of_the_release(directory: Path) -> None:
    found = json.loads((directory / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert found["decoder"]["type"] == "ByteLevel"
    assert [step["type"] for step in found["pre_tokenizer"]["pretokenizers"]] == ["Split"] * 3 + ["ByteLevel"]
    added = {token["content"]: token for token in found["added_tokens"]}
    assert [added[name]["id"] for name in ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>")] == [
        0,
        1,
        2,
    ]
    assert sorted(token["id"] for token in added.values())[3:] == list(range(VOCAB_SIZE - len(added) + 3, VOCAB_SIZE))
    assert not any(token["normalized"] for token in added.values())
    plain = {content for content, token in added.items() if not token["special"]}
    assert plain == {"<think>", "</think>", "｜DSML｜"}
    assert "<｜deepseek_image｜>" in added
    assert config["add_bos_token"] is False


def test_training_again_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its vocabulary is full long before the last document.
    monkeypatch.setattr(training.tokenizer, "_DOCUMENTS", 1000)
    monkeypatch.setattr(training.tokenizer, "_WORD_REPEATS", 25)
    for name in ("one", "other"):
        write_tokenizer(tmp_path / name)
    assert (tmp_path / "one" / "tokenizer.json").read_bytes() == (tmp_path / "other" / "tokenizer.json").read_bytes()
