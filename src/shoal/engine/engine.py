"""Runs requests together: every step feeds each sequence's next token, or the next chunk of its prompt."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from typing import Protocol

from shoal.config.schema import ModelConfig
from shoal.engine.events import PromptEvent, TokenEvent
from shoal.engine.request import Request, Room
from shoal.engine.sequence import Sequence
from shoal.engine.ticket import Ticket
from shoal.errors import EngineStoppedError, QueueFullError, ShoalError
from shoal.model.backbone import ForwardOutput
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache

MOST_RUNNING, MOST_WAITING = 8, 64

PromptProgress = Callable[[int, int], None]
"""Takes how many of the prompt's tokens are read, a chunk's counted layer by layer, and how many there are."""


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
        self, batch: Batch, caches: Items[SequenceCache], *, on_layer: Callable[[int], None] | None = None
    ) -> ForwardOutput:
        """Run the batch and append it to its sequences' caches; when interrupted, leave them as they were.

        `on_layer` is told how many layers are done, after each.
        """
        ...

    def expect(self, token_ids: Items[int], cache: SequenceCache) -> None:
        """Say that these ids follow the sequence next: what their forward needs from the disk may be fetched."""
        ...


class Engine:
    """A model that answers requests, up to `MOST_RUNNING` together, whose prompts it reads `chunk_tokens` at once.

    A sequence ends with the model's context, or at `cache_tokens` where the KV cache has room for fewer. Without
    `start`, whoever reads a ticket runs the steps; with it, a thread does.
    """

    def __init__(self, model: Model, eos_id: int, chunk_tokens: int = 2048, *, cache_tokens: int | None = None) -> None:
        self.model, self.eos_id, self.chunk_tokens = model, eos_id, chunk_tokens
        self.room = Room(model.config.context_length, cache_tokens)
        self._waiting: deque[Ticket] = deque()
        self._running: list[Sequence] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, request: Request) -> Ticket:
        """Queue a request; never waits.

        Raises `PromptError` for one that cannot be run, `QueueFullError`, `EngineStoppedError`.
        """
        request.check(self.model.config, self.room)
        ticket = Ticket(request, None if self._thread else self.step)
        with self._changed:
            if self._is_closed:
                raise EngineStoppedError("the engine is closed, expected no further request")
            if len(self._waiting) >= MOST_WAITING:
                raise QueueFullError(f"{len(self._waiting)} requests wait already, expected fewer than {MOST_WAITING}")
            self._waiting.append(ticket)
            self._changed.notify_all()
        return ticket

    def stream(self, request: Request, progress: PromptProgress | None = None) -> Iterator[TokenEvent]:
        """The tokens of `request`, each as soon as its step is done; `max_new_tokens` ends with the context.

        Raises `PromptError` at once for a prompt that cannot be run. The end-of-sequence id is neither given
        out nor fed.
        """
        return _tokens(self.submit(request), progress)

    def start(self) -> None:
        """Run the steps in a thread of the engine's own, until `close`."""
        assert self._thread is None
        self._thread = threading.Thread(target=self._run, name="shoal-engine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all requests and the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        for ticket in (*self._waiting, *(sequence.ticket for sequence in self._running)):
            ticket.fail(EngineStoppedError("the engine was closed before the request ended"))
        self._waiting.clear()
        self._running.clear()

    def step(self) -> None:
        """One forward of all that can go on."""
        self._admit()
        fed = self._chunks()
        if not fed:
            return
        sequences = [sequence for sequence, _ in fed]
        caches = [sequence.cache for sequence in sequences]
        started = time.perf_counter()
        try:
            batch = Batch.build([ids for _, ids in fed], caches)
            output = self.model.forward(batch, caches, on_layer=self._telling(fed))
        except ShoalError as problem:
            for sequence in sequences:
                self._drop(sequence)
                sequence.ticket.fail(problem)
            return
        for logits, (sequence, ids) in zip(output.logits, fed, strict=True):
            sequence.pending = sequence.pending[len(ids) :]
            sequence.seconds += time.perf_counter() - started
            if sequence.pending:
                continue
            if sequence.take(logits, self.eos_id):
                self.model.expect(sequence.pending, sequence.cache)
            else:
                self._drop(sequence)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._is_closed and not self._waiting and not self._running:
                    self._changed.wait()
                if self._is_closed:
                    return
            self.step()

    def _admit(self) -> None:
        for sequence in list(self._running):
            if sequence.ticket.is_cancelled:
                self._drop(sequence)
                sequence.end("cancelled")
        with self._changed:
            while self._waiting and len(self._running) < MOST_RUNNING:
                ticket = self._waiting.popleft()
                sequence = Sequence(ticket, self.room, self.model, self.model.config.vocab_size)
                if ticket.is_cancelled:
                    sequence.end("cancelled")
                else:
                    self._running.append(sequence)

    def _chunks(self) -> list[tuple[Sequence, tuple[int, ...]]]:
        """What each sequence feeds: a token, or of prompts, first come, what `chunk_tokens` leave."""
        left, fed = self.chunk_tokens, []
        for sequence in self._running:
            ids = sequence.pending[:left] if sequence.is_prompt else sequence.pending
            if ids:
                fed.append((sequence, ids))
            left -= len(ids) if sequence.is_prompt else 0
        return fed

    def _telling(self, fed: list[tuple[Sequence, tuple[int, ...]]]) -> Callable[[int], None]:
        layers = self.model.config.n_layers
        prompts = [(sequence, sequence.cache.length, len(ids)) for sequence, ids in fed if sequence.is_prompt]

        def on_layer(done: int) -> None:
            for sequence, start, count in prompts:
                sequence.tell_prompt(start + count * done // layers)

        return on_layer

    def _drop(self, sequence: Sequence) -> None:
        self._running.remove(sequence)


def _tokens(ticket: Ticket, progress: PromptProgress | None) -> Iterator[TokenEvent]:
    for event in ticket:
        if isinstance(event, TokenEvent):
            yield event
        elif isinstance(event, PromptEvent) and progress is not None:
            progress(event.done, event.total)
