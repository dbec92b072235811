import pytest

from shoal.errors import OptionError
from shoal.text.grammar_vocabulary import MOST_KEPT_GRAMMARS, GrammarVocabulary
from shoal.text.tokenizer import Tokenizer


def test_no_text_of_a_grammar_is_a_marker_or_an_id_that_does_not_exist(
    vocabulary: GrammarVocabulary, mini: Tokenizer
) -> None:
    mask = vocabulary.mask(vocabulary.matcher("start: /(?s:.*)/\n", "x"))
    allowed = set(mask.nonzero()[:, 0].tolist())
    assert len(mask) == 1030 and max(allowed) < mini.vocab_size
    # It may be empty, so that it may end.
    assert allowed & mini.marker_ids() == {mini.eos_id}
    # But for bytes that no character begins with.
    assert allowed >= {each for each, token in vocabulary.plain.items() if token[0] < 0x80}


def test_every_marker_of_the_release_is_one_for_grammars_too(release: Tokenizer) -> None:
    named = {release.marker_id(each) for each in ("<｜System｜>", "<｜User｜>", "<think>", "</think>", "｜DSML｜")}
    assert named <= release.marker_ids()
    assert len(release.marker_ids()) == 1283


def test_the_end_comes_only_where_the_text_is_whole(vocabulary: GrammarVocabulary, mini: Tokenizer) -> None:
    matcher = vocabulary.matcher('start: "ab"\n', "x").deep_copy()
    assert not vocabulary.mask(matcher)[mini.eos_id]
    for token_id in mini.encode("ab"):
        matcher.consume_token(token_id)
    assert vocabulary.mask(matcher).nonzero()[:, 0].tolist() == [mini.eos_id]


@pytest.mark.parametrize(
    ("grammar", "words"),
    [
        ("start: (", "cannot be enforced"),
        ('start: "a" nothing\n', "nothing"),
        ("start: /(?=a)b/\n", "look-around"),
    ],
)
def test_a_wrong_grammar_is_an_error_that_names_the_field(
    vocabulary: GrammarVocabulary, grammar: str, words: str
) -> None:
    with pytest.raises(OptionError, match=r"`a\.b` cannot be enforced") as caught:
        vocabulary.matcher(grammar, "a.b")
    assert words in caught.value.message and "\n" not in caught.value.message


def test_a_grammar_is_compiled_once_and_few_are_kept(vocabulary: GrammarVocabulary) -> None:
    first = vocabulary.matcher('start: "a"\n', "x")
    assert vocabulary.matcher('start: "a"\n', "y") is first
    for index in range(MOST_KEPT_GRAMMARS):
        vocabulary.matcher(f'start: "{index}"\n', "x")
    assert vocabulary.matcher('start: "a"\n', "x") is not first
