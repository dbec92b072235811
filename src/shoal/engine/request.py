"""What a caller asks of the engine. Everything is checked when it is made, so that a step never meets a bad value."""

import math
from dataclasses import dataclass, field

from shoal.config.schema import ModelConfig
from shoal.errors import OptionError, PromptError

LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are chosen and how many at most. Raises `OptionError` for a value out of range.

    Temperature 0 takes the largest logit. Equal requests give equal tokens: `seed` has a fixed default.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        # Written so that NaN, which compares with nothing, is refused.
        if not (0.0 <= self.temperature < math.inf):
            raise OptionError(f"`temperature` is {self.temperature}, expected a finite number, 0 or above")
        if not (0.0 < self.top_p <= 1.0):
            raise OptionError(f"`top_p` is {self.top_p}, expected above 0 and at most 1")
        if not (0 <= self.seed <= LARGEST_SEED):
            raise OptionError(f"`seed` is {self.seed}, expected 0 to {LARGEST_SEED}")
        if self.max_new_tokens < 1:
            raise OptionError(f"`max_new_tokens` is {self.max_new_tokens}, expected 1 or more")


GREEDY = SamplingOptions()


@dataclass(frozen=True)
class Room:
    """How long a sequence may become: the model's `context`, and what the KV cache holds where that is less."""

    context: int
    cache: int | None = None

    @property
    def tokens(self) -> int:
        """The lesser of both."""
        return self.context if self.cache is None else min(self.context, self.cache)

    def describe(self) -> str:
        """What sets the limit."""
        if self.tokens == self.context:
            return f"the context of {self.context:,}"
        return f"the KV cache of {self.tokens:,} tokens (`--kv-memory`)"


@dataclass(frozen=True)
class Request:
    """One prompt, as ids with everything in it that the model shall see (BOS too), and how to continue it."""

    prompt_ids: tuple[int, ...]
    options: SamplingOptions = field(default=GREEDY)

    def check(self, config: ModelConfig, room: Room) -> None:
        """Raises `PromptError` unless the prompt has tokens of this vocabulary and leaves room for a new one."""
        num_tokens = len(self.prompt_ids)
        if not num_tokens:
            raise PromptError("the prompt is empty, expected at least one token")
        for position, token_id in enumerate(self.prompt_ids):
            if not 0 <= token_id < config.vocab_size:
                raise PromptError(
                    f"token id {token_id} at position {position} of the prompt is outside the vocabulary, "
                    f"expected 0 to {config.vocab_size - 1}"
                )
        if num_tokens >= room.tokens:
            raise PromptError(
                f"the prompt has {num_tokens:,} tokens, expected at most {max(0, room.tokens - 1):,}: "
                f"{room.describe()} must hold at least one new token too"
            )
