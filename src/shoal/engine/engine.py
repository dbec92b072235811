"""Runs one sequence: the prompt in chunks, then a token a step."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from shoal.config.schema import ModelConfig
from shoal.engine.logprobs import TokenLogprobs
from shoal.engine.request import Request, Room
from shoal.engine.sampler import Sampler
from shoal.model.backbone import ForwardOutput
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache

FinishReason = Literal["stop", "length", "context"]
"""The end-of-sequence id, `max_new_tokens`, or the end of the context or of the room in the KV cache."""


PromptProgress = Callable[[int, int], None]
"""Takes how many of the prompt's tokens are read, a chunk's counted layer by layer, and how many there are."""

Chunk = tuple[tuple[int, ...], Callable[[int], None] | None]


class Model(Protocol):
    """What the engine needs of a model."""

    @property
    def config(self) -> ModelConfig:
        """The shape, the vocabulary and the context's length."""
        ...

    def new_cache(self, reserved: int = 0) -> SequenceCache:
        """A sequence that has no token yet, with room for `reserved`."""
        ...

    def forward(
        self, batch: Batch, caches: Sequence[SequenceCache], *, on_layer: Callable[[int], None] | None = None
    ) -> ForwardOutput:
        """Run the batch and append it to its sequences' caches; when interrupted, leave them as they were.

        `on_layer` is told how many layers are done, after each.
        """
        ...

    def expect(self, token_ids: Sequence[int], cache: SequenceCache) -> None:
        """Say that these ids follow the sequence next: what their forward needs from the disk may be fetched."""
        ...


@dataclass(frozen=True)
class TokenEvent:
    """What one step gave. `token_id` is None when the step ended the sequence and gave no token of the answer.

    `finish_reason` is set on the last event only; `seconds` is the step's wall time, the prompt's on the first event;
    `logprobs` is there where the request asked for them.
    """

    token_id: int | None
    finish_reason: FinishReason | None
    seconds: float
    logprobs: TokenLogprobs | None = None


class Engine:
    """A model that answers requests, one sequence at a time, whose prompts it reads `chunk_tokens` at once.

    A sequence ends with the model's context, or at `cache_tokens` where the KV cache has room for fewer.
    """

    def __init__(self, model: Model, eos_id: int, chunk_tokens: int = 2048, *, cache_tokens: int | None = None) -> None:
        self.model, self.eos_id, self.chunk_tokens = model, eos_id, chunk_tokens
        self.room = Room(model.config.context_length, cache_tokens)

    def stream(self, request: Request, progress: PromptProgress | None = None) -> Iterator[TokenEvent]:
        """The events of `request`, each as soon as its step is done; `max_new_tokens` ends with the context.

        Raises `PromptError` at once for a prompt that cannot be run. The end-of-sequence id is neither given
        out nor fed.
        """
        request.check(self.model.config, self.room)
        return self._steps(request, progress)

    def _steps(self, request: Request, progress: PromptProgress | None) -> Iterator[TokenEvent]:
        room = self.room.tokens - len(request.prompt_ids)
        wanted = request.options.max_new_tokens
        limit = min(wanted, room)
        cache, sampler = (
            self.model.new_cache(len(request.prompt_ids) + limit),
            Sampler(request.options, request.prompt_ids, self.model.config.vocab_size),
        )
        limit_reason: FinishReason = "length" if wanted <= room else "context"
        started = time.perf_counter()
        *beginning, (chunk, on_layer) = self._chunks(request.prompt_ids, progress)
        for ids, telling in beginning:
            self.model.forward(Batch.build([ids], [cache], logits="none"), [cache], on_layer=telling)
        for count in range(1, limit + 1):
            output = self.model.forward(Batch.build([chunk], [cache]), [cache], on_layer=on_layer)
            token_id = sampler.choose(output.logits[0], cache.length)
            seconds = time.perf_counter() - started
            if token_id == self.eos_id:
                yield TokenEvent(None, "stop", seconds)
                return
            if count < limit:
                self.model.expect((token_id,), cache)
            reason = limit_reason if count == limit else None
            yield TokenEvent(token_id, reason, seconds, sampler.logprobs(output.logits[0], token_id))
            chunk, on_layer, started = (token_id,), None, time.perf_counter()

    def _chunks(self, prompt_ids: tuple[int, ...], progress: PromptProgress | None) -> list[Chunk]:
        """The prompt's chunks, and what tells of the progress within each; the last one's logits choose a token."""
        pieces = [(i, prompt_ids[i : i + self.chunk_tokens]) for i in range(0, len(prompt_ids), self.chunk_tokens)]
        return [(ids, self._telling(progress, start, len(ids), len(prompt_ids))) for start, ids in pieces]

    def _telling(
        self, progress: PromptProgress | None, start: int, count: int, total: int
    ) -> Callable[[int], None] | None:
        if progress is None:
            return None
        layers = self.model.config.n_layers
        return lambda done: progress(start + count * done // layers, total)
