"""Whole experts of random layers from the disk, by the threads and into the memory that a budget of experts has."""

import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from shoal.bench.deck import Deck
from shoal.bench.holes import Span, without_holes
from shoal.bench.region import Say
from shoal.bench.result import Result, Skipped
from shoal.bench.rounds import Kept, Round, keep, of_disk
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.plan.disk_probe import DiskProbe
from shoal.weights.arena import Arena
from shoal.weights.cached_experts import READER_THREADS
from shoal.weights.expert_key import Key
from shoal.weights.expert_source import ExpertSource
from shoal.weights.read_job import ReadJob
from shoal.weights.stored_experts import StoredExperts

NAME = "expert_read"
ROUNDS, EXPERTS_A_ROUND, PROBE_SECONDS = 11, 24, 0.3
BUSY, NBYTES = "busy_seconds", "nbytes"


class ExpertReads:
    """Experts of `keys`, read into an arena that is not looked at. Leave it as a context: threads and files end."""

    def __init__(self, source: ExpertSource, keys: Sequence[Key], num_threads: int = READER_THREADS) -> None:
        self.source, self.count = source, min(EXPERTS_A_ROUND, len(keys))
        self.arena = Arena(source.slot_nbytes, self.count)
        self._deck, self._came = Deck(keys), deque[Sequence[Key]]()
        self._reader = source.reader(num_threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()
        self.source.close()

    def round(self, probe: DiskProbe) -> Round:
        """The probe, then `count` experts asked for at once. Raises what prevented one."""
        return self._round(probe, self._draw())

    def round_again(self, probe: DiskProbe) -> Round:
        """`round` with experts that have come before."""
        return self._round(probe, self._came.popleft())

    def _draw(self) -> Sequence[Key]:
        self._came.append(self._deck.draw(self.count))
        return self._came[-1]

    def _round(self, probe: DiskProbe, keys: Sequence[Key]) -> Round:
        rate = probe.run(PROBE_SECONDS)
        busy, started = time.process_time(), time.perf_counter()
        self._read(keys)
        seconds, busy = time.perf_counter() - started, time.process_time() - busy
        return of_disk(rate, seconds, NAME, {BUSY: busy, NBYTES: sum(map(self.source.nbytes, keys))})

    def _read(self, keys: Sequence[Key]) -> None:
        for slot, key in enumerate(keys):
            self._reader.submit(ReadJob(key, self.arena.slot(slot)))
        missing = len(keys)
        while missing:
            for job in self._reader.done(wait=True):
                missing -= 1
                if job.problem is not None:
                    raise job.problem


def expert_result(
    checkpoint: Checkpoint, config: ModelConfig, plans: Sequence[LayerPlan], probe: DiskProbe, say: Say
) -> Result | Skipped:
    """`expert_read`: seconds and processor time of one expert; `ratio` is its bytes a second to the disk's.

    `cpu_ms` is the first time's, with a look at its scales, `cpu_ms_again` any later time's.
    """
    said = list[str]()
    source = StoredExperts(checkpoint, config, plans, said.append)
    keys = stored_keys(source)
    if not keys:
        return Skipped(NAME, f"all {len(source.keys):,} experts are holes of sparse files, which no disk is read for")
    if holes := len(source.keys) - len(keys):
        say(f"{holes:,} of {len(source.keys):,} experts are holes of sparse files: they are not read")
    with ExpertReads(source, keys) as reads:
        # Opens the files and touches the memory.
        reads.round(probe)
        kept = keep([reads.round(probe) for _ in range(ROUNDS)], probe.best_rate)
        again = keep([reads.round_again(probe) for _ in range(ROUNDS)], probe.best_rate)
    more = {
        "cpu_ms_again": again.count(BUSY) / reads.count * 1e3,
        "direct": probe.direct,
        "notices": said,
        "holes": holes,
        "reader_threads": READER_THREADS,
    }
    return _row(kept, reads.count, more)


def stored_keys(source: StoredExperts) -> list[Key]:
    """The experts of which no byte is a hole."""
    return without_holes(
        {key: [Span(each.path, each.start, each.wanted) for each in source.extents(key)] for key in source.keys}
    )


def _row(kept: Kept, count: int, more: dict[str, object]) -> Result:
    seconds, busy = kept.seconds(NAME) / count, kept.count(BUSY) / count
    ratio = kept.median(lambda each: each.counts[NBYTES] / each.jobs[NAME].seconds / each.probe_rate)
    return Result.of(
        NAME,
        kept,
        seconds=seconds,
        nbytes=round(kept.count(NBYTES) / count),
        ratio=ratio,
        value=ratio,
        unit="of the disk",
        more={"cpu_ms": busy * 1e3, "experts_a_round": count, "disk_gb_per_second": kept.probe_rate / 1e9, **more},
        note=f"{busy * 1e3:.2f} ms of processor an expert, {more['cpu_ms_again']:.2f} when it comes again",
    )
