"""A request while it runs: what is fed next, and what the logits that come back mean."""

from typing import Protocol

from jaxtyping import Float32
from torch import Tensor

from shoal.engine.events import FinishReason, PromptEvent, TokenEvent
from shoal.engine.request import Room
from shoal.engine.sampler import Sampler
from shoal.engine.ticket import Ticket
from shoal.model.cache import SequenceCache


class CacheMaker(Protocol):
    """Gives a cache with room for so many tokens."""

    def new_cache(self, reserved: int = 0) -> SequenceCache:
        """A sequence that has no token yet."""
        ...


class Sequence:
    """One running request. `pending` are ids that its cache has not seen; `seconds` went by in steps since an event."""

    def __init__(self, ticket: Ticket, room: Room, caches: CacheMaker, vocab_size: int) -> None:
        request = ticket.request
        self.ticket = ticket
        wanted, left = request.options.max_new_tokens, room.tokens - len(request.prompt_ids)
        self.limit = min(wanted, left)
        self._limit_reason: FinishReason = "length" if wanted <= left else "context"
        self.cache = caches.new_cache(len(request.prompt_ids) + self.limit)
        self.pending = request.prompt_ids
        self.count = 0
        self._sampler = Sampler(request.options, request.prompt_ids, vocab_size, request.constraint)
        self.seconds = 0.0

    @property
    def is_prompt(self) -> bool:
        """Whether no token has been chosen yet."""
        return not self.count

    def tell_prompt(self, done: int) -> None:
        """`done` of the prompt's tokens are through."""
        self.ticket.put(PromptEvent(done, len(self.ticket.request.prompt_ids), self.ticket.cached_tokens))

    def take(self, logits: Float32[Tensor, "vocab"], eos_id: int) -> bool:
        """Choose a token from the logits behind the last id that is known; whether another is wanted."""
        self.count += 1
        token_id = self._sampler.choose(logits, self.cache.length)
        if token_id == eos_id:
            self.end("stop")
            return False
        reason = self._limit_reason if self.count == self.limit else None
        reason = "stop" if self._sampler.is_done else reason
        self.ticket.put(TokenEvent(token_id, reason, self._seconds(), self._sampler.logprobs(logits, token_id)))
        self.pending = (token_id,)
        return reason is None

    def end(self, reason: FinishReason) -> None:
        """The last event of a request that gives no further token."""
        self.ticket.put(TokenEvent(None, reason, self._seconds()))

    def _seconds(self) -> float:
        seconds, self.seconds = self.seconds, 0.0
        return seconds
