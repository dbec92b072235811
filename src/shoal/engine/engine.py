"""Runs one sequence: the prompt as one forward, then a token a step."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from shoal.config.schema import ModelConfig
from shoal.engine.request import Request
from shoal.engine.sampler import Sampler
from shoal.model.backbone import ForwardOutput
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache

FinishReason = Literal["stop", "length", "context"]
"""The end-of-sequence id, `max_new_tokens`, or the end of the context."""


class Model(Protocol):
    """What the engine needs of a model."""

    @property
    def config(self) -> ModelConfig:
        """The shape, the vocabulary and the context's length."""
        ...

    def new_cache(self) -> SequenceCache:
        """A sequence that has no token yet."""
        ...

    def forward(self, batch: Batch, caches: Sequence[SequenceCache]) -> ForwardOutput:
        """Run the batch and append it to its sequences' caches; when interrupted, leave them as they were."""
        ...


@dataclass(frozen=True)
class TokenEvent:
    """What one step gave. `token_id` is None when the step ended the sequence and gave no token of the answer.

    `finish_reason` is set on the last event only; `seconds` is the step's wall time, the prompt's on the first event.
    """

    token_id: int | None
    finish_reason: FinishReason | None
    seconds: float


class Engine:
    """A model that answers requests, one sequence at a time."""

    def __init__(self, model: Model, eos_id: int) -> None:
        self.model, self.eos_id = model, eos_id

    def stream(self, request: Request) -> Iterator[TokenEvent]:
        """The events of `request`, each as soon as its step is done; `max_new_tokens` ends with the context.

        Raises `PromptError` at once for a prompt that cannot be run. The end-of-sequence id is neither given
        out nor fed.
        """
        request.check(self.model.config)
        return self._steps(request)

    def _steps(self, request: Request) -> Iterator[TokenEvent]:
        cache, sampler = self.model.new_cache(), Sampler(request.options)
        room = self.model.config.context_length - len(request.prompt_ids)
        wanted = request.options.max_new_tokens
        limit = min(wanted, room)
        limit_reason: FinishReason = "length" if wanted <= room else "context"
        chunk: tuple[int, ...] = request.prompt_ids
        for count in range(1, limit + 1):
            started = time.perf_counter()
            token_id = self._step(chunk, cache, sampler)
            seconds = time.perf_counter() - started
            if token_id == self.eos_id:
                yield TokenEvent(None, "stop", seconds)
                return
            yield TokenEvent(token_id, limit_reason if count == limit else None, seconds)
            chunk = (token_id,)

    def _step(self, chunk: tuple[int, ...], cache: SequenceCache, sampler: Sampler) -> int:
        output = self.model.forward(Batch.build([chunk], [cache]), [cache])
        return sampler.choose(output.logits[0], cache.length)
