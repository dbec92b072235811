"""What an engine has done so far, in plain numbers. Counted in its thread, read from any."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from shoal.engine.events import FinishReason

WAIT_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
STEP_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)

Ending = FinishReason | Literal["failed"]


@dataclass(frozen=True)
class Histogram:
    """How many values were at most each of `bounds` and above the one before; the last count is of those above all."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """Of all values, whose sum is `total`."""
        return sum(self.counts)


@dataclass(frozen=True)
class EngineMetrics:
    """A moment's gauges, then counters since the start.

    `prompt_tokens` are those of the requests that were admitted; of them `cached_tokens` were found in the prefix
    cache. `computed_tokens` went through forwards, those of pre-empted sequences again. A first token's seconds run
    from when its request was submitted, a later one's from the token before.
    """

    waiting: int
    running: int
    kv_used_nbytes: int
    kv_total_nbytes: int | None
    submitted: int
    refused: int
    ended: Mapping[Ending, int]
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    generated_tokens: int
    steps: int
    abandoned_steps: int
    preemptions: int
    first_token_seconds: Histogram
    token_seconds: Histogram
    queue_seconds: Histogram
    step_seconds: Histogram
    step_sequences: Histogram
    step_tokens: Histogram


class Meter:
    """The counts while they grow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter[str]()
        self._ended = Counter[Ending]()
        self._values = {
            "first_token_seconds": _Values(WAIT_SECONDS),
            "token_seconds": _Values(STEP_SECONDS),
            "queue_seconds": _Values(WAIT_SECONDS),
            "step_seconds": _Values(STEP_SECONDS),
            "step_sequences": _Values(SIZES),
            "step_tokens": _Values(SIZES),
        }

    def add(self, name: str, count: int = 1) -> None:
        """Count by the name of a field of `EngineMetrics`."""
        with self._lock:
            self._counts[name] += count

    def observe(self, name: str, value: float) -> None:
        """One more value of a histogram."""
        with self._lock:
            self._values[name].add(value)

    def end(self, ending: Ending) -> None:
        """One more request has ended."""
        with self._lock:
            self._ended[ending] += 1

    def step(self, sequences: int, tokens: int, seconds: float) -> None:
        """One more forward."""
        with self._lock:
            self._counts["steps"] += 1
            self._counts["computed_tokens"] += tokens
            self._values["step_seconds"].add(seconds)
            self._values["step_sequences"].add(sequences)
            self._values["step_tokens"].add(tokens)

    def snapshot(self, waiting: int, running: int, kv_used_nbytes: int, kv_total_nbytes: int | None) -> EngineMetrics:
        """All of it at once."""
        with self._lock:
            counts, values = self._counts, {name: values.freeze() for name, values in self._values.items()}
            return EngineMetrics(
                waiting,
                running,
                kv_used_nbytes,
                kv_total_nbytes,
                counts["submitted"],
                counts["refused"],
                dict(self._ended),
                counts["prompt_tokens"],
                counts["cached_tokens"],
                counts["computed_tokens"],
                counts["generated_tokens"],
                counts["steps"],
                counts["abandoned_steps"],
                counts["preemptions"],
                **values,
            )


class _Values:
    """A histogram while it grows."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def freeze(self) -> Histogram:
        return Histogram(self.bounds, tuple(self.counts), self.total)
