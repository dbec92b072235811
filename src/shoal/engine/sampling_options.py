"""How tokens are chosen, checked when it is said, so that a step never meets a bad value."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from shoal.errors import OptionError

LARGEST_SEED = 2**64 - 1
MOST_LOGPROBS, MOST_STOPS, MOST_STOP_CHARACTERS, MOST_BIASES = 20, 16, 1024, 4096
LARGEST_PENALTY = 10.0


@dataclass(frozen=True)
class SamplingOptions:
    """What one answer is drawn with. Raises `OptionError` for a value out of range.

    Temperature 0 takes the largest logit. Equal requests give equal tokens: `seed` has a fixed default. `top_k` ranks
    are kept (0: all), of them those with at least `min_p` of the first one's probability, of them the fewest first
    whose mass reaches `top_p`. Before that logits of tokens that prompt or answer hold are divided by
    `repetition_penalty` where positive, else multiplied; those of tokens the answer holds n times lose
    n·`frequency_penalty` + `presence_penalty`; `logit_bias` is added by id. The answer ends before the first of the
    `stop` strings. `logprobs` likeliest tokens are told beside each token, as the model had them before all this; None
    tells nothing.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    stop: tuple[str, ...] = ()
    logprobs: int | None = None

    def __post_init__(self) -> None:
        # Written so that NaN, which compares with nothing, is refused.
        _expect(self, "temperature", 0.0 <= self.temperature < math.inf, "a finite number, 0 or above")
        _expect(self, "top_p", 0.0 < self.top_p <= 1.0, "above 0 and at most 1")
        _expect(self, "seed", 0 <= self.seed <= LARGEST_SEED, f"0 to {LARGEST_SEED}")
        _expect(self, "max_new_tokens", self.max_new_tokens >= 1, "1 or more")
        _expect(self, "top_k", self.top_k >= 0, "0 or more")
        _expect(self, "min_p", 0.0 <= self.min_p <= 1.0, "0 to 1")
        penalty = self.repetition_penalty
        _expect(self, "repetition_penalty", 0.0 < penalty <= LARGEST_PENALTY, f"above 0 and at most {LARGEST_PENALTY}")
        for name in ("frequency_penalty", "presence_penalty"):
            within = abs(getattr(self, name)) <= LARGEST_PENALTY
            _expect(self, name, within, f"-{LARGEST_PENALTY} to {LARGEST_PENALTY}")
        _expect(self, "logprobs", self.logprobs is None or 0 <= self.logprobs <= MOST_LOGPROBS, f"0 to {MOST_LOGPROBS}")
        self._check_biases()
        self._check_stops()

    @property
    def changes_logits(self) -> bool:
        """Whether any logit is not the model's own when ranks are made."""
        neutral = (self.repetition_penalty, self.frequency_penalty, self.presence_penalty) == (1.0, 0.0, 0.0)
        return bool(self.logit_bias) or not neutral

    def _check_biases(self) -> None:
        if len(self.logit_bias) > MOST_BIASES:
            raise OptionError(f"`logit_bias` has {len(self.logit_bias):,} tokens, expected at most {MOST_BIASES:,}")
        for token_id, bias in self.logit_bias.items():
            if token_id < 0 or not math.isfinite(bias):
                raise OptionError(f"`logit_bias` of token {token_id} is {bias}, expected a finite number for 0 or more")

    def _check_stops(self) -> None:
        if len(self.stop) > MOST_STOPS:
            raise OptionError(f"`stop` has {len(self.stop)} strings, expected at most {MOST_STOPS}")
        for text in self.stop:
            if not 0 < len(text) <= MOST_STOP_CHARACTERS:
                found = f"a `stop` string has {len(text):,} characters"
                raise OptionError(f"{found}, expected 1 to {MOST_STOP_CHARACTERS:,}")


def _expect(options: SamplingOptions, name: str, is_right: bool, wanted: str) -> None:
    if not is_right:
        raise OptionError(f"`{name}` is {getattr(options, name)}, expected {wanted}")


GREEDY = SamplingOptions()
NAMES = frozenset(each.name for each in fields(SamplingOptions))
"""Of the options, as callers write them."""
