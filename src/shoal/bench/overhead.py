"""What a server adds to a streamed token: HTTP, JSON, reading the reply, server-sent events, over the engine alone.

    added  = (seconds of requests through the server - of the same requests through the engine's tickets) / tokens
    figure = the larger of the added wall seconds and the added processor seconds
    ratio  = figure / seconds of a real token: the release's bytes of a step over what kernels make of the probe

The model recites a text and costs next to nothing, so nothing hides what the server takes: with a real one most of it
happens beside the forwards. Engine and server are threads of this process, as in `shoal serve`; who reads the streams
is a process of its own.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from shoal.bench.machine import PROC
from shoal.bench.probe import Probe
from shoal.bench.reciter import Reciter
from shoal.bench.result import Result
from shoal.bench.rounds import Kept, Round, Timing, keep, timed
from shoal.bench.serve import NEVER
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.doctor.processor import read_processor
from shoal.engine.engine import Engine
from shoal.engine.request import Request
from shoal.engine.ticket import Ticket
from shoal.plan.estimate import Estimate
from shoal.plan.memory_split import Workload, smallest_memory, split_memory
from shoal.plan.rates import ASSUMED, SHARE, SHARE_WITHOUT_AVX512, Rate, Rates
from shoal.plan.stored import count_stored
from shoal.text.tokenizer import Tokenizer

ENGINE, SERVED = "engine", "served"
ROUNDS, WARM_ROUNDS, CONTEXT = 8, 1, 2048
AIM_SECONDS = 0.39
"""A token of the release at 2.5 a second, which is what the project aims at on one socket."""
TEXT = "Herring swim in schools, and a school turns as one: each fish heeds the few that are beside it, and no more. "

Serving = Callable[[Engine, Tokenizer, ModelConfig], AbstractContextManager[str]]
"""Serves an engine that has started, at the URL that it gives, until the end of the context, which ends the engine."""


class NotedEngine(Engine):
    """Remembers the requests that it got."""

    noted: list[Request]

    def submit(self, request: Request) -> Ticket:
        """The engine's."""
        self.noted.append(request)
        return super().submit(request)


@dataclass(frozen=True)
class Overhead:
    """`requests` at once, of `tokens` each. `directory` has the tokenizer, `release` a real model's configuration."""

    directory: Path
    release: Path
    serving: Serving
    probe: Probe
    requests: int
    tokens: int

    @property
    def name(self) -> str:
        """`serve_overhead`, and how many stream where it is not one."""
        return "serve_overhead" if self.requests == 1 else f"serve_overhead_{self.requests}"

    def result(self) -> Result:
        """The row."""
        torch.set_num_threads(1)
        kept = keep(list(self._rounds()), self.probe.best_rate)
        wall, processor = self._added(kept, _wall), self._added(kept, self._processor)
        seconds, step = max(wall, processor), self.step_seconds(self.requests, kept.probe_rate)
        real = step / self.requests
        aim = AIM_SECONDS * real / self.step_seconds(1, kept.probe_rate)
        more = {
            "wall_ms": wall * 1e3,
            "processor_ms": processor * 1e3,
            "engine_ms": kept.seconds(ENGINE) / self._count * 1e3,
            "real_token_ms": real * 1e3,
            "share_at_aim": seconds / aim,
            "probe_gb_per_second": kept.probe_rate / 1e9,
        }
        note = f"processor {processor * 1e3:.2f} ms; {seconds / real:.3%} of a real token"
        note += f", {seconds / aim:.2%} where one alone takes {AIM_SECONDS} s"
        value = seconds * 1e3
        return Result.of(
            self.name,
            kept,
            seconds=seconds,
            nbytes=0,
            ratio=seconds / real,
            value=value,
            unit="ms a token",
            more=more,
            note=note,
        )

    def step_seconds(self, sequences: int, probe_rate: float) -> float:
        """What `shoal plan` foresees of the release, all in memory, where the memory has this rate."""
        stored = count_stored(load_config(self.release))
        workload = Workload(smallest_memory(stored, Workload(0, CONTEXT, sequences)), CONTEXT, sequences)
        share = SHARE if "avx512f" in read_processor(PROC).instruction_sets else SHARE_WITHOUT_AVX512
        rates = Rates(Rate(probe_rate, "measured"), ASSUMED.disk, ASSUMED.arithmetic, share)
        return Estimate(split_memory(stored, workload), rates).step_memory_seconds

    @property
    def _count(self) -> int:
        return self.requests * self.tokens

    def _added(self, kept: Kept, seconds: Callable[[Timing], float]) -> float:
        return kept.median(lambda each: seconds(each.jobs[SERVED]) - seconds(each.jobs[ENGINE])) / self._count

    def _processor(self, timing: Timing) -> float:
        return timing.share * timing.seconds * self.probe.threads

    def _rounds(self) -> Iterator[Round]:
        config, tokenizer = load_config(self.directory), Tokenizer.load(self.directory)
        engine = NotedEngine(Reciter(config, tokenizer.encode(TEXT)), NEVER, max_running=self.requests)
        engine.noted = []
        engine.start()
        with self.serving(engine, tokenizer, config) as url, client(url, self.requests, self.tokens) as ask:
            ask()
            noted = tuple(engine.noted)
            assert len(noted) == self.requests, noted
            jobs = {ENGINE: lambda: _read(engine, noted), SERVED: ask}
            for index in range(WARM_ROUNDS + ROUNDS):
                rate, probe = self.probe.run()
                timings = {name: timed([job], self.probe.threads) for name, job in jobs.items()}
                if index >= WARM_ROUNDS:
                    yield Round(rate, probe.share, timings)
            given = engine.metrics().generated_tokens
            wanted = (1 + 2 * (WARM_ROUNDS + ROUNDS)) * self._count
            assert given == wanted, (given, wanted)


def _wall(timing: Timing) -> float:
    return timing.seconds


def _read(engine: Engine, requests: tuple[Request, ...]) -> None:
    """All of them at once, to their ends."""
    for ticket in [engine.submit(request) for request in requests]:
        for _ in ticket:
            pass


@contextmanager
def client(url: str, requests: int, tokens: int) -> Iterator[Callable[[], int]]:
    """A process that reads streams whenever the function is called, which gives how many bytes they had."""
    command = [sys.executable, "-m", "shoal.bench.stream_client", url, str(requests), str(tokens)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        reading, writing = process.stdout, process.stdin
        assert reading is not None and writing is not None

        def ask() -> int:
            writing.write("ask\n")
            writing.flush()
            answer = reading.readline()
            assert answer, "the client ended, and said why"
            return int(answer)

        yield ask
