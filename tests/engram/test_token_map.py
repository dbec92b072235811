import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from shoal.config.schema import ModelConfig
from shoal.engram import token_map
from shoal.engram.hashing import DEAD
from shoal.engram.token_map import TokenMap
from shoal.errors import EngramError, PromptError, TokenizerError


def test_release_map_has_the_published_digest(release_map: TokenMap, release_golden: dict[str, Any]) -> None:
    digest = hashlib.sha256(release_map.ids.astype("<i8").tobytes()).hexdigest()
    assert digest == release_golden["token_map_sha256_int64_le"]
    assert int(release_map.ids.max()) + 1 == release_golden["compressed_vocab_size"]
    assert release_map.pad == release_golden["compressed_pad_id"]
    assert release_map.ids.dtype == np.int64


def test_miniature_map_is_the_golden_one(
    mini_config: ModelConfig, mini_tokenizer_file: Path, mini_golden: dict[str, Any]
) -> None:
    loaded = TokenMap.load(mini_tokenizer_file, mini_config, None)
    assert loaded.ids.tolist() == mini_golden["token_map"]


def test_another_number_of_keys_is_refused(mini_config: ModelConfig, mini_tokenizer_file: Path) -> None:
    with pytest.raises(EngramError) as raised:
        TokenMap.load(mini_tokenizer_file, replace(mini_config, engram_compressed_vocab_size=834), None)
    assert "has 835 keys, expected `engram_compressed_vocab_size` 834" in raised.value.message
    assert "another tokenizer or tokenizers version rehashes every row" in str(raised.value.hint)


def test_a_tokenizer_of_another_size_is_refused(release_config: ModelConfig, mini_tokenizer_file: Path) -> None:
    with pytest.raises(EngramError, match="has 1024 ids, expected `vocab_size` 129280"):
        TokenMap.load(mini_tokenizer_file, release_config, None)


def test_a_pad_outside_the_vocabulary_is_refused(mini_config: ModelConfig, mini_tokenizer_file: Path) -> None:
    with pytest.raises(EngramError, match="`engram_pad_id` is 1024"):
        TokenMap.load(mini_tokenizer_file, replace(mini_config, engram_pad_id=1024), None)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[1, 2]"])
def test_a_file_that_is_no_tokenizer_is_named(mini_config: ModelConfig, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        TokenMap.load(file, mini_config, None)


def test_an_absent_file_is_named(mini_config: ModelConfig, tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"cannot read the tokenizer .*tokenizer\.json"):
        TokenMap.load(tmp_path / "tokenizer.json", mini_config, None)


def test_image_positions_are_dead(mini_config: ModelConfig, mini_tokenizer_file: Path) -> None:
    loaded = TokenMap.load(mini_tokenizer_file, mini_config, None)
    compressed = loaded.compress([0, 1010, 1010, 5], np.array([False, True, True, False]))
    assert compressed.tolist() == [loaded.ids[0], DEAD, DEAD, loaded.ids[5]]


@pytest.mark.parametrize("token_id", [-1, 1024, 2**40])
def test_an_id_outside_the_vocabulary_is_refused(
    mini_config: ModelConfig, mini_tokenizer_file: Path, token_id: int
) -> None:
    loaded = TokenMap.load(mini_tokenizer_file, mini_config, None)
    with pytest.raises(PromptError, match=f"token id {token_id} is outside"):
        loaded.compress([0, token_id])


def test_a_cached_map_is_read_back_and_not_built_again(
    mini_config: ModelConfig, mini_tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = TokenMap.load(mini_tokenizer_file, mini_config, tmp_path / "new")
    monkeypatch.setattr(token_map, "build_ids", None)
    again = TokenMap.load(mini_tokenizer_file, mini_config, tmp_path / "new")
    assert np.array_equal(first.ids, again.ids)


def test_a_new_tokenizers_version_builds_a_new_map(
    mini_config: ModelConfig, mini_tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TokenMap.load(mini_tokenizer_file, mini_config, tmp_path)
    monkeypatch.setattr(tokenizers, "__version__", "0.0.0")
    TokenMap.load(mini_tokenizer_file, mini_config, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "longer"])
def test_a_damaged_cache_entry_is_rebuilt(
    mini_config: ModelConfig, mini_tokenizer_file: Path, tmp_path: Path, damage: str
) -> None:
    whole = TokenMap.load(mini_tokenizer_file, mini_config, tmp_path)
    (entry,) = tmp_path.iterdir()
    content = entry.read_bytes()
    damaged = bytes([*content[:900], content[900] ^ 1, *content[901:]])
    entry.write_bytes({"cut": content[:-8], "flip": damaged, "empty": b"", "longer": content + bytes(8)}[damage])
    assert np.array_equal(TokenMap.load(mini_tokenizer_file, mini_config, tmp_path).ids, whole.ids)
    assert entry.read_bytes() == content


def test_a_cache_that_cannot_be_written_changes_nothing(
    mini_config: ModelConfig, mini_tokenizer_file: Path, tmp_path: Path
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("not a directory")
    assert len(TokenMap.load(mini_tokenizer_file, mini_config, blocker).ids) == 1024
