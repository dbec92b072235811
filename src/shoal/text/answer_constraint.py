"""Which tokens an answer may continue with: a thought freely, then only what its shape has.

No marker comes but those that the shape needs where it needs them, and none is spelled by plain tokens.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from jaxtyping import Bool
from torch import Tensor

from shoal.errors import OptionError
from shoal.text.answer_shape import AnswerShape, ContentShape
from shoal.text.calls_grammar import calls_grammar
from shoal.text.grammar_vocabulary import GrammarVocabulary, reason
from shoal.text.json_grammar import json_grammar

if TYPE_CHECKING:
    import llguidance

MOST_RULE_CHARACTERS = 64 << 10


class AnswerConstraint:
    """The state of one answer. Stages follow each other: a thought, free content, what a grammar has.

    `matcher` is of the last stage; the first ones end with the marker that their reader looks for.
    """

    def __init__(
        self, vocabulary: GrammarVocabulary, matcher: "llguidance.LLMatcher", where: str, *, thinks: bool, is_free: bool
    ) -> None:
        self._vocabulary, self._matcher, self._where = vocabulary, matcher, where
        self._thinks, self._is_free = thinks, is_free
        self._tail = b""

    @property
    def is_done(self) -> bool:
        """Whether the answer fits its shape and nothing could be added."""
        is_last = not self._thinks and not self._is_free
        return is_last and self._matcher.is_stopped() and not self._matcher.is_error()

    def mask(self) -> Bool[Tensor, "vocab"]:
        """Which tokens may come next. Raises `OptionError` where the grammar has become too large to go on with."""
        vocabulary = self._vocabulary
        if self._thinks:
            mask = vocabulary.is_plain.clone()
            mask[vocabulary.think_end_id] = True
        elif self._is_free:
            mask = vocabulary.is_plain.clone()
            mask[vocabulary.eos_id] = True
            mask[vocabulary.dsml_id] = self._tail.endswith(b"<")
        else:
            mask = vocabulary.mask(self._matcher)
            if self._matcher.is_error() or not bool(mask.any()):
                raise OptionError(f"the answer cannot be held to `{self._where}`: {reason(self._matcher)}")
        vocabulary.guard.forbid(mask, self._tail)
        return mask

    def accept(self, token_id: int) -> None:
        """One more token, which the mask had."""
        vocabulary = self._vocabulary
        token = vocabulary.plain.get(token_id)
        self._tail = b"" if token is None else vocabulary.guard.tail(self._tail, token)
        if self._thinks:
            self._thinks = token_id != vocabulary.think_end_id
        elif self._is_free:
            self._is_free = token_id != vocabulary.dsml_id
        else:
            self._matcher.consume_token(token_id)


def constraint_maker(vocabulary: GrammarVocabulary, shape: AnswerShape) -> Callable[[], AnswerConstraint]:
    """Compiles `shape`, which may take a while, to what makes the constraint of each answer.

    Raises `OptionError`, naming the field of the request, for a shape that is wrong, too large or cannot be enforced.
    """
    content, calls = shape.content, shape.calls
    is_free = False
    if content is not None:
        grammar, where = _content_grammar(content), content.where
    else:
        assert calls is not None and calls.tools
        grammar, where = calls_grammar(calls, vocabulary.dsml_id), calls.tools[0].where
        # A block that has to come, and that the prompt has not opened, is the whole of the content.
        if calls.is_required and not calls.is_opened:
            grammar = grammar.replace("start: ", f'start: "\\n\\n<" <[{vocabulary.dsml_id}]> ', 1)
        is_free = not calls.is_required
    matcher = vocabulary.matcher(grammar, where)
    return lambda: AnswerConstraint(vocabulary, matcher.deep_copy(), where, thinks=shape.thinking, is_free=is_free)


def _content_grammar(content: ContentShape) -> str:
    if content.kind == "json":
        return json_grammar(content.rule, content.where, is_strict=content.is_strict)
    import llguidance

    if not isinstance(content.rule, str) or len(content.rule) > MOST_RULE_CHARACTERS:
        raise OptionError(f"`{content.where}` is over {MOST_RULE_CHARACTERS:,} characters, expected a shorter one")
    if content.kind == "regex":
        return llguidance.LLMatcher.grammar_from_regex(content.rule)
    return llguidance.LLMatcher.grammar_from_lark(content.rule)
