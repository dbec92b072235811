"""A tokenizer as grammars see it: plain tokens are bytes, and a marker is something that no text can be.

Most markers of this model are not flagged special in `tokenizer.json`; here all of the added vocabulary is.
"""

import re
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from shoal.errors import OptionError
from shoal.text.spelling_guard import SpellingGuard
from shoal.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import llguidance

THINK_END, DSML = "</think>", "｜DSML｜"
MOST_KEPT_GRAMMARS = 64
# A limit met while an answer is written ends that answer, so these are as generous as a token's time allows.
STEP_LEXER_FUEL, STEP_ITEMS, ROW_ITEMS, LEXER_STATES = 200_000, 50_000, 8_000, 100_000

# What stands around a message: the place in the grammar that was made here, and its lines.
_LISTING = re.compile(r"\s*(\d+ \||\^|$)")
_PREFIX = re.compile(r"^(Parser Error: )?(at \d+\(\d+\): )?(failed to compile JSON schema: )?")


class GrammarVocabulary:
    """`vocab_size` logits, of which the tokenizer may know fewer ids; grammars that were compiled for it are kept."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        self.size, self.eos_id = vocab_size, tokenizer.eos_id
        self.think_end_id, self.dsml_id = tokenizer.marker_id(THINK_END), tokenizer.marker_id(DSML)
        markers = tokenizer.marker_ids()
        self._spelled = [tokenizer.token_bytes(each) for each in range(tokenizer.vocab_size)]
        self.plain = {each: token for each, token in enumerate(self._spelled) if each not in markers}
        self.is_plain = torch.zeros(vocab_size, dtype=torch.bool)
        self.is_plain[list(self.plain)] = True
        self.guard = SpellingGuard(self.plain, (THINK_END, DSML))
        self._wrapped = _wrap(self, tokenizer, markers)
        self._compiled: OrderedDict[str, llguidance.LLMatcher] = OrderedDict()
        self._lock = threading.Lock()

    def matcher(self, grammar: str, where: str) -> "llguidance.LLMatcher":
        """A grammar at its start, to be copied for each answer.

        Raises `OptionError`, naming `where`, for a grammar that is wrong, too large, or that nothing fulfils.
        """
        with self._lock:
            found = self._compiled.get(grammar)
        if found is None:
            found = self._compile(grammar, where)
        with self._lock:
            self._compiled[grammar] = found
            self._compiled.move_to_end(grammar)
            if len(self._compiled) > MOST_KEPT_GRAMMARS:
                self._compiled.popitem(last=False)
        return found

    def mask(self, matcher: "llguidance.LLMatcher") -> Bool[Tensor, "vocab"]:
        """What `matcher` lets come, without ids that the tokenizer does not have."""
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        known = np.unpackbits(bits, bitorder="little", count=min(self.size, 8 * len(bits))).view(np.bool_)
        mask = torch.zeros(self.size, dtype=torch.bool)
        mask[: len(known)] = torch.from_numpy(known)
        mask[len(self._spelled) :] = False
        return mask

    def _compile(self, grammar: str, where: str) -> "llguidance.LLMatcher":
        import llguidance

        limits = llguidance.LLParserLimits(
            step_lexer_fuel=STEP_LEXER_FUEL,
            step_max_items=STEP_ITEMS,
            max_items_in_row=ROW_ITEMS,
            max_lexer_states=LEXER_STATES,
            verbose_errors=False,
        )
        matcher = llguidance.LLMatcher(self._wrapped, grammar, log_level=0, limits=limits)
        if not matcher.is_error():
            # The first mask finds what only shows when a grammar is used: too many ways on, or none.
            first = matcher.deep_copy()
            is_possible = bool(self.mask(first).any())
            if is_possible and not first.is_error():
                return matcher
            matcher = first
        raise OptionError(f"`{where}` cannot be enforced: {reason(matcher)}")


def reason(matcher: "llguidance.LLMatcher") -> str:
    """Why a matcher cannot go on, in one line, without the grammar and its state."""
    lines = matcher.get_error().replace("<non-verbose/>", "").splitlines()
    found = " ".join(" ".join(line for line in lines if not _LISTING.match(line)).split())
    if not found or "NoExtension" in found:
        return "no text fulfils it"
    return _PREFIX.sub("", found)


def _wrap(vocabulary: GrammarVocabulary, tokenizer: Tokenizer, markers: frozenset[int]) -> "llguidance.LLTokenizer":
    import llguidance

    class Wrapped:
        eos_token_id, bos_token_id = tokenizer.eos_id, tokenizer.bos_id
        tokens = vocabulary._spelled
        special_token_ids = sorted(markers)

        def __call__(self, text: bytes) -> list[int]:
            return tokenizer.encode(text.decode("utf-8", "replace"))

    wrapper = llguidance.TokenizerWrapper(Wrapped())
    return llguidance.LLTokenizer(wrapper, n_vocab=tokenizer.vocab_size, eos_token=tokenizer.eos_id)
