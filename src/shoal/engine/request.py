"""What a caller asks of the engine."""

import math
from dataclasses import dataclass, field

from shoal.config.schema import ModelConfig
from shoal.engine.constraint import ConstraintMaker
from shoal.engine.sampling_options import GREEDY, SamplingOptions
from shoal.errors import OptionError, PromptError


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
    """One prompt, as ids with everything in it that the model shall see (BOS too), and how to continue it.

    `marks` are lengths of the prompt that others will share, such as the system prompt's: a prefix cache keeps them.
    After `deadline_seconds`, counted from when it is submitted, the request ends with what it has.
    `constraint` makes what decides which tokens may come; None lets any.
    """

    prompt_ids: tuple[int, ...]
    options: SamplingOptions = field(default=GREEDY)
    marks: tuple[int, ...] = ()
    deadline_seconds: float | None = None
    constraint: ConstraintMaker | None = None

    def check(self, config: ModelConfig, room: Room) -> None:
        """Raises `PromptError` unless the prompt has tokens of this vocabulary and leaves room for a new one.

        Raises `OptionError` for a deadline that is no time.
        """
        self._check_ids(config)
        self._check_deadline()
        num_tokens = len(self.prompt_ids)
        if num_tokens >= room.tokens:
            raise PromptError(
                f"the prompt has {num_tokens:,} tokens, expected at most {max(0, room.tokens - 1):,}: "
                f"{room.describe()} must hold at least one new token too"
            )

    def _check_ids(self, config: ModelConfig) -> None:
        if not self.prompt_ids:
            raise PromptError("the prompt is empty, expected at least one token")
        # Prompts are long and nearly always right: looked through one by one only to name what is wrong.
        if min(self.prompt_ids) >= 0 and max(self.prompt_ids) < config.vocab_size:
            return
        for position, token_id in enumerate(self.prompt_ids):
            if not 0 <= token_id < config.vocab_size:
                raise PromptError(
                    f"token id {token_id} at position {position} of the prompt is outside the vocabulary, "
                    f"expected 0 to {config.vocab_size - 1}"
                )

    def _check_deadline(self) -> None:
        seconds = self.deadline_seconds
        # Written so that NaN, which compares with nothing, is refused.
        if seconds is not None and not 0 < seconds < math.inf:
            raise OptionError(f"`deadline_seconds` is {seconds}, expected a finite number above 0")
