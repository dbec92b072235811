import pytest

from shoal.text.answer_constraint import AnswerConstraint, constraint_maker
from shoal.text.answer_shape import AnswerShape, CallsShape, ContentShape, ToolShape
from shoal.text.grammar_vocabulary import GrammarVocabulary
from shoal.text.tokenizer import Tokenizer

TEXT = ContentShape("regex", "(?s:.*)", "x")
CALLS = CallsShape((ToolShape("f", None, "x"),), is_required=False)


def first_refused(constraint: AnswerConstraint, ids: list[int]) -> int | None:
    """The place of the first id that may not come."""
    for place, token_id in enumerate(ids):
        if not constraint.mask()[token_id]:
            return place
        constraint.accept(token_id)
    return None


@pytest.mark.parametrize("shape", [AnswerShape(True, TEXT), AnswerShape(False, TEXT), AnswerShape(False, calls=CALLS)])
@pytest.mark.parametrize("spelling", ["</think>", "｜DSML｜"])
def test_plain_tokens_do_not_spell_a_marker(
    vocabulary: GrammarVocabulary, mini: Tokenizer, shape: AnswerShape, spelling: str
) -> None:
    ids = mini.encode(f"so {spelling}")
    assert first_refused(constraint_maker(vocabulary, shape)(), ids) == len(ids) - 1


def test_a_thought_ends_with_its_marker_and_nothing_else(vocabulary: GrammarVocabulary, mini: Tokenizer) -> None:
    constraint = constraint_maker(vocabulary, AnswerShape(True, ContentShape("regex", "ab", "x")))()
    thought = mini.encode("hm\n\nyes")
    assert first_refused(constraint, thought) is None
    markers = {each for each in mini.marker_ids() if constraint.mask()[each]}
    assert markers == {mini.marker_id("</think>")}
    assert first_refused(constraint, [mini.marker_id("</think>"), *mini.encode("ab")]) is None
    assert constraint.is_done


def test_a_call_is_opened_by_the_marker_behind_its_bracket(vocabulary: GrammarVocabulary, mini: Tokenizer) -> None:
    dsml = mini.marker_id("｜DSML｜")
    maker = constraint_maker(vocabulary, AnswerShape(False, calls=CALLS))
    assert first_refused(maker(), [*mini.encode("text"), dsml]) == len(mini.encode("text"))
    opened = maker()
    assert first_refused(opened, [*mini.encode("text\n\n"), *mini.encode("<"), dsml]) is None
    # From there on the grammar's.
    assert not opened.mask()[mini.eos_id]
