"""A request while it waits or runs: what is fed next, and what the logits that come back mean."""

import time
from collections.abc import Sequence as Items

from jaxtyping import Float32
from torch import Tensor

from shoal.engine.events import FinishReason, PromptEvent, TokenEvent
from shoal.engine.request import Room
from shoal.engine.sampler import Sampler
from shoal.engine.ticket import Ticket
from shoal.model.cache import SequenceCache


class Sequence:
    """One request. Its `cache` may be taken away at any time between steps: `known` ids and the sampler go on from
    there as if nothing had been.

    `cuts` are lengths of the prompt at which a chunk ends, so that its state there can be kept. `seconds` went by in
    steps since an event.
    """

    def __init__(self, number: int, ticket: Ticket, room: Room, vocab_size: int, cuts: tuple[int, ...] = ()) -> None:
        """Raises OptionError for an option that does not go with this vocabulary."""
        request = ticket.request
        self.number, self.ticket = number, ticket
        self.known = list(request.prompt_ids)
        self.cuts = tuple(cut for cut in cuts if 0 < cut <= len(self.known))
        wanted, left = request.options.max_new_tokens, room.tokens - len(self.known)
        self.limit = min(wanted, left)
        self._limit_reason: FinishReason = "length" if wanted <= left else "context"
        self.most_tokens = len(self.known) + self.limit
        self.cache: SequenceCache | None = None
        self.count = 0
        self._sampler = Sampler(request.options, request.prompt_ids, vocab_size, request.constraint)
        self.seconds = 0.0
        self.submitted = self.last_token = time.monotonic()
        self.finish_reason: FinishReason | None = None
        self.waits_for: tuple[Sequence, int] | None = None
        self._has_begun = False

    @property
    def is_prompt(self) -> bool:
        """Whether no token has been chosen yet."""
        return not self.count

    @property
    def num_known(self) -> int:
        """Tokens of the prompt and of the answer so far."""
        return len(self.known)

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return 0 if self.cache is None else self.cache.length

    @property
    def chunk_end(self) -> int:
        """The next cut, or all that is known."""
        return next((cut for cut in self.cuts if cut > self.length), self.num_known)

    @property
    def is_wanted(self) -> bool:
        """Whether anybody still waits for it."""
        return not self.ticket.is_cancelled and not self.is_late

    @property
    def is_late(self) -> bool:
        """Whether its deadline has passed."""
        seconds = self.ticket.request.deadline_seconds
        return seconds is not None and time.monotonic() - self.submitted >= seconds

    def is_held_back(self, running: Items["Sequence"]) -> bool:
        """Whether the sequence it waits for still computes what both begin with."""
        if self.waits_for is None:
            return False
        leader, length = self.waits_for
        return leader in running and leader.length < length

    def begin(self, cached: int) -> bool:
        """It runs from now on, with `cached` tokens known already; whether for the first time."""
        self.waits_for = None
        if self._has_begun:
            return False
        self._has_begun = True
        self.ticket.cached_tokens = cached
        self.tell_prompt(cached)
        return True

    def release(self) -> None:
        """Give the cache back. What is known is enough to compute it anew."""
        if self.cache is not None:
            self.cache.release()
            self.cache = None

    def next_ids(self, count: int) -> list[int]:
        """The next `count` ids that the cache has not seen."""
        return self.known[self.length : self.length + count]

    def tell_prompt(self, done: int) -> None:
        """`done` of the prompt's tokens are through. Said until the first token is given."""
        if self.is_prompt:
            self.ticket.put(PromptEvent(done, self.num_known, self.ticket.cached_tokens))

    def take(self, logits: Float32[Tensor, "vocab"], eos_id: int) -> bool:
        """Choose a token from the logits behind the last known id; whether another is wanted.

        Raises a ShoalError where none can be chosen.
        """
        token_id = self._sampler.choose(logits, self.num_known)
        logprobs = self._sampler.logprobs(logits, token_id)
        self.count += 1
        if token_id == eos_id:
            self.end("stop")
            return False
        self.finish_reason = self._limit_reason if self.count == self.limit else None
        if self._sampler.is_done:
            self.finish_reason = "stop"
        self.known.append(token_id)
        self.ticket.put(TokenEvent(token_id, self.finish_reason, self._seconds(), logprobs))
        return self.finish_reason is None

    def end(self, reason: FinishReason) -> None:
        """The last event of a request that gives no further token."""
        self.finish_reason = reason
        self.ticket.put(TokenEvent(None, reason, self._seconds()))

    def _seconds(self) -> float:
        seconds, self.seconds = self.seconds, 0.0
        return seconds
