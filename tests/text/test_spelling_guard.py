import torch
from hypothesis import given
from hypothesis import strategies as st

from shoal.text.spelling_guard import SpellingGuard

WORDS = ["a", "b", "ab", "ba", "aab", "abab", "c", "bc"]
TOKENS = {index: word.encode() for index, word in enumerate(WORDS)}
GUARD = SpellingGuard(TOKENS, ("abab", "bcb"))


def allowed(tail: bytes) -> set[str]:
    mask = torch.ones(len(WORDS), dtype=torch.bool)
    GUARD.forbid(mask, tail)
    return {WORDS[index] for index in mask.nonzero()[:, 0].tolist()}


@given(st.lists(st.sampled_from(range(len(WORDS))), max_size=12))
def test_exactly_the_tokens_that_complete_a_text_are_forbidden(ids: list[int]) -> None:
    said, tail = "", b""
    for each in ids:
        wanted = {word for word in WORDS if not any(text in said[-3:] + word for text in ("abab", "bcb"))}
        assert allowed(tail) == wanted
        word = WORDS[each] if WORDS[each] in wanted else "c" if "c" in wanted else "a"
        said, tail = said + word, GUARD.tail(tail, word.encode())


def test_a_mask_is_not_emptied() -> None:
    mask = torch.zeros(len(WORDS), dtype=torch.bool)
    mask[WORDS.index("abab")] = True
    GUARD.forbid(mask, b"")
    assert mask.nonzero()[:, 0].tolist() == [WORDS.index("abab")]
