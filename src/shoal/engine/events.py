"""What an engine tells of a request while it runs."""

from dataclasses import dataclass
from typing import Literal

from shoal.engine.logprobs import TokenLogprobs

FinishReason = Literal["stop", "length", "context", "cancelled", "deadline"]
"""The end-of-sequence id, `max_new_tokens`, the end of the context or of the room in the KV cache, the caller, time."""


@dataclass(frozen=True)
class PromptEvent:
    """How far the prompt is: `done` of `total` tokens, of which `cached` were known and not computed.

    A chunk's tokens count layer by layer.
    """

    done: int
    total: int
    cached: int


@dataclass(frozen=True)
class TokenEvent:
    """What one step gave. `token_id` is None when the step ended the sequence and gave no token of the answer.

    `finish_reason` is set on the last event only; `seconds` is the wall time of its steps, the prompt's on the first
    event; `logprobs` is there where the request asked for them.
    """

    token_id: int | None
    finish_reason: FinishReason | None
    seconds: float
    logprobs: TokenLogprobs | None = None


Event = PromptEvent | TokenEvent
