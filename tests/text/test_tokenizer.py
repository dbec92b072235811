import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import PromptError, TokenizerError
from shoal.text.tokenizer import MAX_NBYTES, Tokenizer

DATA = Path(__file__).parents[1] / "data"
CASES = json.loads((DATA / "release/golden/tokenizer_golden.json").read_text(encoding="utf-8"))["cases"]
MARKERS = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<think>", "｜DSML｜"]


def _load(folder: Path, content: dict[str, Any], vocab_size: int | None = 1024) -> Tokenizer:
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return Tokenizer.load(folder, vocab_size)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_release_texts_have_the_golden_ids(release: Tokenizer, case: dict[str, Any]) -> None:
    assert release.encode_with_markers(case["text"]) == case["ids"]
    assert release.decode(case["ids"]) == case["decoded"]


def test_markers_are_resolved_by_their_spelling(release: Tokenizer, mini: Tokenizer) -> None:
    assert (release.bos_id, release.eos_id, release.vocab_size) == (0, 1, 129280)
    assert (mini.bos_id, mini.eos_id, mini.vocab_size) == (0, 1, 1024)
    assert (release.marker_id("</think>"), mini.marker_id("</think>")) == (128822, 1012)
    with pytest.raises(TokenizerError, match="`<｜nothing｜>`"):
        mini.marker_id("<｜nothing｜>")


@pytest.mark.parametrize("marker", MARKERS)
def test_a_marker_typed_by_a_user_stays_text(tokenizer: Tokenizer, marker: str) -> None:
    ids = tokenizer.encode(f"a{marker}b")
    assert tokenizer.marker_id(marker) not in ids
    assert tokenizer.decode(ids) == f"a{marker}b"
    assert tokenizer.marker_id(marker) in tokenizer.encode_with_markers(f"a{marker}b")


@given(st.text())
def test_plain_text_survives_the_round_trip(mini: Tokenizer, text: str) -> None:
    assert mini.decode(mini.encode(text)) == text


def test_text_without_markers_encodes_alike_either_way(release: Tokenizer) -> None:
    for case in CASES:
        if not any(character in case["text"] for character in "<｜"):
            assert release.encode(case["text"]) == case["ids"]


def test_a_prompt_begins_with_bos_exactly_once(tokenizer: Tokenizer) -> None:
    bos = MARKERS[0]
    assert tokenizer.encode_prompt("Hello") == [0, *tokenizer.encode("Hello")]
    assert tokenizer.encode_prompt("") == [0]
    assert tokenizer.encode_prompt(f"{bos}Hello", markers=True) == [0, *tokenizer.encode("Hello")]
    assert tokenizer.encode_prompt("Hello", markers=True) == [0, *tokenizer.encode("Hello")]
    assert tokenizer.encode_prompt(f"{bos}Hello").count(0) == 1


def test_token_bytes_joined_are_the_decoded_text(tokenizer: Tokenizer) -> None:
    for token_id in range(0, tokenizer.vocab_size, 1 + tokenizer.vocab_size // 5000):
        assert tokenizer.token_bytes(token_id).decode(errors="replace") == tokenizer.decode([token_id])


@pytest.mark.parametrize("token_id", [-1, 1024, 2**40])
def test_an_id_outside_the_vocabulary_is_refused(mini: Tokenizer, token_id: int) -> None:
    with pytest.raises(PromptError, match=f"token id {token_id} is outside the vocabulary of 1024 ids"):
        mini.decode([0, token_id])
    with pytest.raises(PromptError, match=f"token id {token_id}"):
        mini.token_bytes(token_id)


@pytest.mark.parametrize("encode", ["encode", "encode_with_markers", "encode_prompt"])
def test_half_a_surrogate_pair_is_refused(mini: Tokenizer, encode: str) -> None:
    with pytest.raises(PromptError, match=r"character 2 is the lone surrogate U\+DCFF"):
        getattr(mini, encode)("ab\udcff")


def test_an_absent_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"there is no tokenizer `.*tokenizer\.json`"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b" \n", b"{", b"{}", b"[]", b"\xff\xfe", b"[" * 10_000, b"null"])
def test_a_malformed_tokenizer_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json` is"):
        Tokenizer.load(tmp_path)


def test_a_tokenizer_over_64_mib_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as stream:
        stream.truncate(MAX_NBYTES + 1)
    with pytest.raises(TokenizerError, match=f"is {MAX_NBYTES + 1} bytes"):
        Tokenizer.load(tmp_path)


def test_a_tokenizer_of_another_vocabulary_is_refused(mini: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match="has 1024 ids, expected `vocab_size` 129280: it belongs to another"):
        Tokenizer.load(mini.path, 129280)


def test_a_missing_marker_is_named(tmp_path: Path, mini_json: dict[str, Any]) -> None:
    for token in mini_json["added_tokens"]:
        token["content"] = token["content"].replace("</think>", "</thought>")
    with pytest.raises(TokenizerError, match="no marker `</think>`"):
        _load(tmp_path, mini_json)


def test_a_bos_under_another_id_is_refused(tmp_path: Path, mini_json: dict[str, Any]) -> None:
    vocabulary, added = mini_json["model"]["vocab"], mini_json["added_tokens"]
    bos, pad = MARKERS[0], "<｜▁pad▁｜>"
    vocabulary[bos], vocabulary[pad] = 2, 0
    for token in added:
        token["id"] = {bos: 2, pad: 0}.get(token["content"], token["id"])
    with pytest.raises(TokenizerError, match=f"`{bos}` is id 2 in .*, expected id 0"):
        _load(tmp_path, mini_json)


def test_a_hole_in_the_ids_is_refused(tmp_path: Path, mini_json: dict[str, Any]) -> None:
    vocabulary = mini_json["model"]["vocab"]
    vocabulary[max(vocabulary, key=vocabulary.get)] = 5000
    with pytest.raises(TokenizerError, match="ids up to 5000, expected no hole"):
        _load(tmp_path, mini_json, None)


def test_another_kind_of_tokenizer_is_refused(tmp_path: Path, mini_json: dict[str, Any]) -> None:
    mini_json["decoder"] = {"type": "Fuse"}
    with pytest.raises(TokenizerError, match=r"the decoder of .* is `Fuse`, expected `ByteLevel`"):
        _load(tmp_path, mini_json)


def test_truncation_left_from_training_is_switched_off(tmp_path: Path, mini_json: dict[str, Any]) -> None:
    mini_json["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    loaded = _load(tmp_path, mini_json)
    assert loaded.decode(loaded.encode_with_markers("a longer text")) == "a longer text"


def test_a_path_may_hold_any_letters(tmp_path: Path, mini_json: dict[str, Any]) -> None:
    folder = tmp_path / "模型 ünï"
    folder.mkdir()
    assert _load(folder, mini_json).vocab_size == 1024
