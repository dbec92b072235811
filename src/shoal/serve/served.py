"""What all requests share: the model once it is there, the options, and whether new requests are still taken."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from shoal.config.schema import ModelConfig
from shoal.engine.engine import Engine
from shoal.engine.request import Request
from shoal.engine.ticket import Ticket
from shoal.errors import ShoalError
from shoal.serve.errors import ApiError, as_api_error
from shoal.serve.metrics import Metrics
from shoal.serve.options import ServeOptions
from shoal.serve.response_store import ResponseStore
from shoal.text.grammar_vocabulary import GrammarVocabulary
from shoal.text.tokenizer import Tokenizer
from shoal.text.turns import Turns

_RECENT = 32


@dataclass(frozen=True)
class ServedModel:
    """What answers. The engine runs in a thread of its own; `counts` are of stores and caches, for `/metrics`."""

    engine: Engine
    tokenizer: Tokenizer
    config: ModelConfig
    counts: Callable[[], dict[str, float]] = dict
    _grammars: list[GrammarVocabulary] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def grammars(self) -> GrammarVocabulary:
        """What constrains answers; made when the first one has to be, which takes a second or three."""
        with self._lock:
            if not self._grammars:
                self._grammars.append(GrammarVocabulary(self.tokenizer, self.config.vocab_size))
            return self._grammars[0]


class Served:
    """One server's state. All of it is used from the event loop's thread, but for `open` and `fail`."""

    def __init__(self, options: ServeOptions | None = None) -> None:
        self.options = options or ServeOptions()
        self.turns = Turns()
        self.responses = ResponseStore()
        self.metrics = Metrics()
        self.started = self.now()
        self.is_draining = False
        self.loading = "loading"
        self.problem: ShoalError | None = None
        self._model: ServedModel | None = None
        self._seconds: deque[float] = deque(maxlen=_RECENT)

    @property
    def is_open(self) -> bool:
        """Whether a model is there to answer."""
        return self._model is not None

    @property
    def model(self) -> ServedModel:
        """Raises `ApiError` while it is loaded, and when loading failed."""
        if self._model is None:
            message = self.loading if self.problem is None else f"the model is not loaded: {self.problem.message}"
            headers = {"Retry-After": "5"}
            raise ApiError(
                503, message, code="model_not_ready", hint="ask `/ready` until it says 200.", headers=headers
            )
        return self._model

    def open(self, model: ServedModel) -> None:
        """From now on requests are answered."""
        self.metrics.watch(model.engine.metrics, model.counts)
        self._model = model

    def fail(self, problem: ShoalError) -> None:
        """The model could not be loaded."""
        self.problem = problem

    def now(self) -> int:
        """Seconds since the epoch, as answers tell when they were made."""
        return int(time.time())

    def submit(self, request: Request, field: str = "messages") -> Ticket:
        """The engine's `submit`, whose errors become those of the protocol; `field` of the body holds the prompt.

        Who takes the ticket calls `release`.
        """
        model = self.model
        if self.is_draining:
            raise ApiError(503, "the server is shutting down", code="shutting_down", headers={"Retry-After": "10"})
        room = model.engine.room
        if len(request.prompt_ids) >= room.tokens:
            # Agents look for these words and numbers, and shorten the conversation by themselves.
            raise ApiError(
                400,
                f"the prompt is too long: {len(request.prompt_ids)} tokens > {max(0, room.tokens - 1)} maximum, since "
                f"{room.describe()} must hold at least one new token too",
                param=field,
                code="context_length_exceeded",
                hint="shorten it, or its tools.",
            )
        try:
            return model.engine.submit(request)
        except ShoalError as problem:
            raise as_api_error(problem, self.retry_after()) from None

    def release(self, ticket: Ticket, seconds: float | None = None) -> None:
        """Nobody reads `ticket` any more; `seconds` it took, where it came to its end."""
        ticket.cancel()
        if seconds is not None:
            self._seconds.append(seconds)

    def retry_after(self) -> int:
        """Seconds after which a place may be free: what the latest requests took, on average."""
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else 1.0
        return max(1, min(60, round(mean)))


def served_of(connection: HTTPConnection) -> Served:
    """The state of the application that got this request."""
    served = connection.app.state.served
    assert isinstance(served, Served)
    return served
