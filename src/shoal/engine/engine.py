"""Runs requests together: every step feeds each sequence's next token, or the next chunk of its prompt.

One thread at a time runs steps, and all that running sequences have belongs to it. Other threads only queue requests,
mark tickets as cancelled, and read events.
"""

import itertools
import threading
import time
import traceback
from collections.abc import Callable
from collections.abc import Sequence as Items

from shoal.engine.events import FinishReason
from shoal.engine.forward import ForwardAbandonedError, Outcome, run_forward
from shoal.engine.kv_room import ByteRoom, KvRoom
from shoal.engine.metrics import EngineMetrics, Meter
from shoal.engine.model import Model
from shoal.engine.prefix_lengths import worth_writing
from shoal.engine.prefix_protocol import PrefixCache
from shoal.engine.request import Request, Room
from shoal.engine.scheduler import Scheduler
from shoal.engine.sequence import Sequence
from shoal.engine.shared_prompts import leader_of
from shoal.engine.ticket import Ticket
from shoal.engine.token_stream import PromptProgress, TokenStream
from shoal.errors import CacheFullError, EngineStoppedError, QueueFullError, ShoalError
from shoal.model.cache import SequenceCache

MOST_RUNNING, MOST_WAITING = 8, 64
# Between looks at a queue that cannot move: others' pages must come free first.
STUCK_SECONDS = 0.01


class Engine:
    """A model that answers requests, up to `max_running` together, whose prompts it reads `chunk_tokens` at once.

    A sequence ends with the model's context, or at `cache_tokens` where the KV cache has room for fewer; all of them
    together have `kv_room`, counted for what `new_cache` gives, else the model. Prompts go on from what `prefix` has
    kept. Without `start`, whoever reads a ticket runs
    the steps; with it, a thread does, and `problem` says what ended it early.
    """

    def __init__(
        self,
        model: Model,
        eos_id: int,
        chunk_tokens: int = 2048,
        *,
        cache_tokens: int | None = None,
        new_cache: Callable[[], SequenceCache] | None = None,
        kv_room: KvRoom | None = None,
        prefix: PrefixCache | None = None,
        max_running: int = MOST_RUNNING,
        max_waiting: int = MOST_WAITING,
    ) -> None:
        self.model, self.eos_id, self.chunk_tokens, self.prefix = model, eos_id, chunk_tokens, prefix
        self.max_running, self.max_waiting = max_running, max_waiting
        self._new_cache = new_cache
        kv_room = kv_room or ByteRoom()
        limits = [limit for limit in (cache_tokens, kv_room.longest) if limit is not None]
        self.room = Room(model.config.context_length, min(limits, default=None))
        self.problem: EngineStoppedError | None = None
        self._scheduler: Scheduler[Sequence] = Scheduler(kv_room, max_running, chunk_tokens)
        self._arrived: list[Sequence] = []
        self._numbers = itertools.count()
        self._meter = Meter()
        self._changed = threading.Condition()
        # Held by who runs a step.
        self._stepping = threading.Lock()
        self._thread: threading.Thread | None = None
        self._refusal: str | None = None
        self._is_closed = self._is_cut = False

    @property
    def is_idle(self) -> bool:
        """Whether no request waits or runs."""
        return not (self._arrived or self._scheduler.waiting or self._scheduler.running)

    def submit(self, request: Request) -> Ticket:
        """Queue a request; never waits.

        Raises `PromptError` and `OptionError` for one that cannot be run, `QueueFullError`, `EngineStoppedError`.
        """
        request.check(self.model.config, self.room)
        ticket = Ticket(request, None if self._thread else self._step_for, self._on_cancel)
        cuts = () if self.prefix is None else self.prefix.worth_keeping(len(request.prompt_ids), request.marks)
        sequence = Sequence(next(self._numbers), ticket, self.room, self.model.config.vocab_size, tuple(cuts))
        with self._changed:
            self._refuse_when_stopped()
            self._refuse_when_full()
            self._arrived.append(sequence)
            self._meter.add("submitted")
            self._changed.notify_all()
        return ticket

    def stream(self, request: Request, progress: PromptProgress | None = None) -> TokenStream:
        """The tokens of `request`, each as soon as its step is done; `max_new_tokens` ends with the context.

        Raises `PromptError` at once for a prompt that cannot be run. The end-of-sequence id is neither given
        out nor fed.
        """
        return TokenStream(self.submit(request), progress)

    def start(self) -> None:
        """Run the steps in a thread of the engine's own, until `close`."""
        assert self._thread is None
        self._thread = threading.Thread(target=self._run, name="shoal-engine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all requests, one that is in a forward between two of its layers, and the thread. Nothing the second
        time."""
        with self._changed:
            self._is_closed = True
            self._refusal = self._refusal or "the engine is closed, expected no further request"
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        with self._stepping:
            self._fail_all("the engine was closed before the request ended")

    def drain(self, seconds: float) -> bool:
        """Take no further request, let those that are there end, and close; whether all ended in time.

        Those that did not, or were there at a `cut`, end as `deadline`.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            self._refusal = self._refusal or "the engine is shutting down, expected no further request"
        if not self._wait_until_idle(deadline):
            self._is_cut = True
            self._wait_until_idle(None)
        self.close()
        return not self._is_cut

    def cut(self) -> None:
        """The time of a `drain`, which runs or follows, is over. Takes no lock: a signal's handler may call."""
        self._is_cut = True

    def metrics(self) -> EngineMetrics:
        """What it has done, and does, at this moment."""
        scheduler = self._scheduler
        waiting, room = len(self._arrived) + len(scheduler.waiting), scheduler.room
        return self._meter.snapshot(waiting, len(scheduler.running), room.used_nbytes, room.total_nbytes)

    def step(self) -> None:
        """One forward of all that can go on. Not while a thread of the engine's own runs."""
        with self._stepping:
            self._step()

    def _step_for(self, ticket: Ticket) -> None:
        with self._stepping:
            # Another reader may have run the step while this one waited.
            if not ticket.is_ready:
                self._step()

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                with self._stepping:
                    moved = self._step()
                if not moved:
                    time.sleep(STUCK_SECONDS)
        except BaseException as problem:
            self._stop(problem)

    def _wait_for_work(self) -> bool:
        """Whether there is some; otherwise the engine is closed."""
        with self._changed:
            while self.is_idle and not self._is_closed:
                self._changed.notify_all()
                self._changed.wait()
            return not self._is_closed

    def _wait_until_idle(self, deadline: float | None) -> bool:
        """Whether it came to that before `deadline`."""
        while not self.is_idle and (deadline is None or time.monotonic() < deadline):
            if self._thread is None:
                self.step()
                continue
            with self._changed:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                self._changed.wait_for(lambda: self.is_idle, left)
        return self.is_idle

    def _on_cancel(self) -> None:
        # Without a thread nobody may come to run another step. Who runs one now looks at its end.
        if self._thread is None and self._stepping.acquire(blocking=False):
            try:
                self._sweep()
            finally:
                self._stepping.release()

    def _step(self) -> bool:
        """Whether anything was fed, or there is nothing to do."""
        self._sweep()
        self._scheduler.admit(self._begin)
        plan = self._scheduler.plan()
        for sequence in plan.preempted:
            self._let_go(sequence)
        if plan.chunks:
            self._forward(plan.chunks)
        self._sweep()
        return bool(plan.chunks) or self.is_idle

    def _sweep(self) -> None:
        """Take in those that have arrived, and let those go that nobody waits for."""
        with self._changed:
            arrived, self._arrived = self._arrived, []
            for sequence in arrived:
                self._scheduler.add(sequence)
        for sequence in (*self._scheduler.waiting, *self._scheduler.running):
            if sequence.ticket.is_done:
                self._remove(sequence)
            elif sequence.ticket.is_cancelled:
                self._end(sequence, "cancelled")
            elif sequence.is_late or self._is_cut:
                self._end(sequence, "deadline")
            elif sequence.length == sequence.num_known:
                # An interrupt took away what its last forward gave.
                self._let_go(self._scheduler.requeue(sequence))

    def _begin(self, sequence: Sequence) -> bool:
        """Give it a cache, the longest prefix that is kept; whether it runs now."""
        try:
            return self._open(sequence)
        except CacheFullError as problem:
            if not self._evict() and not self._scheduler.running:
                self._fail(sequence, problem)
        except ShoalError as problem:
            self._fail(sequence, problem)
        return False

    def _open(self, sequence: Sequence) -> bool:
        if sequence.is_held_back(self._scheduler.running):
            return False
        found = None if self.prefix is None else self.prefix.find(sequence.known)
        cached = 0 if found is None else found[1]
        if self.prefix is not None:
            sequence.waits_for = leader_of(sequence, cached, self._scheduler.running)
            if sequence.waits_for is not None:
                if found is not None:
                    found[0].release()
                return False
        sequence.cache = self._empty_cache(sequence) if found is None else found[0]
        assert sequence.length == cached < sequence.num_known, (sequence.length, cached, sequence.num_known)
        if sequence.begin(cached):
            self._meter.add("prompt_tokens", sequence.num_known)
            self._meter.add("cached_tokens", cached)
            self._meter.observe("queue_seconds", time.monotonic() - sequence.submitted)
        first = min(sequence.chunk_end - cached, self.chunk_tokens)
        self.model.expect(sequence.next_ids(first), sequence.cache)
        return True

    def _empty_cache(self, sequence: Sequence) -> SequenceCache:
        return self.model.new_cache(sequence.most_tokens) if self._new_cache is None else self._new_cache()

    def _forward(self, chunks: Items[tuple[Sequence, int]]) -> None:
        started = time.perf_counter()
        try:
            outcomes = run_forward(self.model, chunks, lambda: self._is_closed or self._is_cut)
        except ForwardAbandonedError:
            self._meter.add("abandoned_steps")
            return
        except CacheFullError as problem:
            self._make_room(problem)
            return
        seconds = time.perf_counter() - started
        self._meter.step(len(chunks), sum(outcome.count for outcome in outcomes), seconds)
        for outcome in outcomes:
            outcome.sequence.seconds += seconds
            try:
                self._settle(outcome)
            except ShoalError as problem:
                self._fail(outcome.sequence, problem)

    def _settle(self, outcome: Outcome) -> None:
        """What a sequence does with what it got. Raises what ends it."""
        sequence = outcome.sequence
        if outcome.problem is not None:
            raise outcome.problem
        assert sequence.cache is not None
        if self.prefix is not None and sequence.length in sequence.cuts:
            request = sequence.ticket.request
            lasting = worth_writing(sequence.length, len(request.prompt_ids), request.marks)
            self.prefix.keep(sequence.known[: sequence.length], sequence.cache, lasting)
        if outcome.logits is None:
            return
        is_wanted = sequence.take(outcome.logits, self.eos_id)
        self._count_token(sequence)
        if is_wanted:
            self.model.expect(sequence.next_ids(1), sequence.cache)
        else:
            self._end(sequence)

    def _count_token(self, sequence: Sequence) -> None:
        now = time.monotonic()
        name = "first_token_seconds" if sequence.count == 1 else "token_seconds"
        self._meter.observe(name, now - sequence.last_token)
        self._meter.add("generated_tokens", int(sequence.finish_reason != "stop"))
        sequence.last_token = now

    def _make_room(self, problem: CacheFullError) -> None:
        """The pages ran out before the count of them did: what is only kept goes, or the youngest waits again, or what
        is alone fails."""
        if self._evict():
            return
        if len(self._scheduler.running) == 1:
            self._fail(self._scheduler.running[0], problem)
        else:
            self._let_go(self._scheduler.requeue(self._scheduler.running[-1]))

    def _evict(self) -> bool:
        """Whether a kept prefix could be let go."""
        return self.prefix is not None and self.prefix.evict()

    def _let_go(self, sequence: Sequence) -> None:
        sequence.release()
        self._meter.add("preemptions")

    def _end(self, sequence: Sequence, reason: FinishReason | None = None) -> None:
        """It has its last event, or gets it with `reason`."""
        if reason is not None:
            sequence.end(reason)
        if self.prefix is not None and sequence.cache is not None and sequence.count:
            self.prefix.keep(sequence.known[: sequence.length], sequence.cache)
        assert sequence.finish_reason is not None
        self._meter.end(sequence.finish_reason)
        self._remove(sequence)

    def _fail(self, sequence: Sequence, problem: ShoalError) -> None:
        """It ends by an error; the next sweep takes it out."""
        if not sequence.ticket.is_done:
            # The frames of a forward hold caches and activations, and a reader may hold the error for long.
            traceback.clear_frames(problem.__traceback__)
            sequence.ticket.fail(problem)
            self._meter.end("failed")

    def _remove(self, sequence: Sequence) -> None:
        sequence.release()
        self._scheduler.remove(sequence)

    def _stop(self, problem: BaseException) -> None:
        """The thread cannot go on: everybody is told, those that come later too."""
        message = f"the engine stopped: {type(problem).__name__}: {problem}"
        self.problem = EngineStoppedError(message, hint="this is an error in the program; start it again.")
        self.problem.__cause__ = problem
        with self._changed:
            self._is_closed, self._refusal = True, message
        self._fail_all(message)

    def _fail_all(self, message: str) -> None:
        with self._changed:
            sequences = [*self._arrived, *self._scheduler.waiting, *self._scheduler.running]
            self._arrived = []
        for sequence in sequences:
            self._fail(sequence, EngineStoppedError(message))
        self._sweep()
        with self._changed:
            self._changed.notify_all()

    def _refuse_when_stopped(self) -> None:
        if self._refusal is not None:
            raise EngineStoppedError(self._refusal)

    def _refuse_when_full(self) -> None:
        waiting = sum(not each.ticket.is_cancelled for each in (*self._arrived, *self._scheduler.waiting))
        if waiting >= self.max_waiting:
            self._meter.add("refused")
            raise QueueFullError(f"{waiting} requests wait already, expected fewer than {self.max_waiting}")
