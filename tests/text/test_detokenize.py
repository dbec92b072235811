import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import PromptError
from shoal.text.detokenize import StreamDetokenizer
from shoal.text.tokenizer import Tokenizer

# Ids 3 .. 258 of the miniature are the single bytes; 1000 and up are markers.
BYTES_AND_MARKERS = st.one_of(st.integers(3, 258), st.integers(0, 1023), st.sampled_from([0, 1, 2, 1000, 1012]))


def _stream(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = StreamDetokenizer(tokenizer)
    return [*(detokenizer.push(token_id) for token_id in ids), detokenizer.flush()]


@given(st.lists(BYTES_AND_MARKERS))
def test_the_pieces_joined_are_the_whole_text_of_the_miniature(mini: Tokenizer, ids: list[int]) -> None:
    assert "".join(_stream(mini, ids)) == mini.decode(ids)


@given(st.lists(st.one_of(st.integers(0, 300), st.integers(0, 129279), st.integers(128799, 129279))))
def test_the_pieces_joined_are_the_whole_text_of_the_release(release: Tokenizer, ids: list[int]) -> None:
    assert "".join(_stream(release, ids)) == release.decode(ids)


@given(st.text(min_size=1))
def test_valid_text_never_shows_a_replacement_character(mini: Tokenizer, text: str) -> None:
    pieces = _stream(mini, mini.encode(text.replace("\ufffd", "")))
    assert "\ufffd" not in "".join(pieces)
    assert pieces[-1] == ""


def _byte_ids(tokenizer: Tokenizer, content: bytes) -> list[int]:
    of_byte = {tokenizer.token_bytes(token_id): token_id for token_id in range(3, 1000)}
    return [of_byte[bytes([byte])] for byte in content]


def test_a_character_appears_with_its_last_byte(mini: Tokenizer) -> None:
    assert _stream(mini, _byte_ids(mini, "🐟é".encode())) == ["", "", "", "🐟", "", "é", ""]


def test_a_cut_off_character_is_replaced_when_the_next_byte_proves_it(mini: Tokenizer) -> None:
    assert _stream(mini, _byte_ids(mini, b"\xe4\xbda")) == ["", "", "\ufffda", ""]


def test_a_byte_that_begins_nothing_is_replaced_at_once(mini: Tokenizer) -> None:
    assert _stream(mini, _byte_ids(mini, b"\xffa")) == ["\ufffd", "a", ""]


def test_an_unfinished_character_is_replaced_at_the_end(mini: Tokenizer) -> None:
    assert _stream(mini, _byte_ids(mini, b"\xf0\x9f\x90")) == ["", "", "", "\ufffd"]


def test_a_flushed_stream_begins_anew(mini: Tokenizer) -> None:
    detokenizer = StreamDetokenizer(mini)
    detokenizer.push(_byte_ids(mini, b"\xe4")[0])
    detokenizer.flush()
    assert detokenizer.push(_byte_ids(mini, b"a")[0]) == "a"


def test_an_id_outside_the_vocabulary_is_refused(mini: Tokenizer) -> None:
    with pytest.raises(PromptError, match="token id 1024"):
        StreamDetokenizer(mini).push(1024)
