"""Engram rows from the disk: those of one token, and those of a prompt, with nothing of them in memory.

Rows are drawn evenly from the tables, as hashes do, and the store keeps none. Where the file system has O_DIRECT
nothing comes from the page cache; the result says whether it has, and which reader there was.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from shoal.bench.holes import Span, without_holes
from shoal.bench.result import Result, Skipped
from shoal.bench.rounds import Kept, Round, keep, of_disk
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.plan.disk_probe import DiskProbe
from shoal.weights.engram_store import StoredEngramRows
from shoal.weights.engram_tables import table_names, table_tensors
from shoal.weights.row_reader import ReaderOptions, RowReader

# A prompt's figure is named by its tokens, a token's by its reads in the release: 48 rows, codes and scales.
NAMES = {1: "engram_96", 512: "engram_512"}
ROUNDS = {1: 15, 512: 3}
PROBE_SECONDS = 0.3
SEED = 17
READS, NBYTES = "reads", "nbytes"


@dataclass(frozen=True)
class EngramRun:
    """Rows of tokens, requested for all layers and then gathered layer by layer."""

    store: StoredEngramRows
    num_rows: dict[int, int]
    columns: int

    def seconds(self, tokens: int, generator: torch.Generator) -> float:
        """Of one run, over rows that it draws."""
        wanted = {
            layer: torch.randint(count, (tokens * self.columns,), generator=generator)
            for layer, count in self.num_rows.items()
        }
        started = time.perf_counter()
        for layer, rows in wanted.items():
            self.store.request(layer, rows.tolist())
        for layer, rows in wanted.items():
            self.store.gather(layer, rows)
        return time.perf_counter() - started

    def round(self, tokens: int, probe: DiskProbe, generator: torch.Generator) -> Round:
        """The probe, then a run."""
        rate, before = probe.run(PROBE_SECONDS), self._counts()
        seconds = self.seconds(tokens, generator)
        counts = {name: now - before[name] for name, now in self._counts().items()}
        return of_disk(rate, seconds, NAMES[tokens], counts)

    def _counts(self) -> dict[str, float]:
        return {READS: self.store.statistics.reads, NBYTES: self.store.statistics.nbytes_read}


def engram_results(
    checkpoint: Checkpoint,
    plans: Sequence[LayerPlan],
    columns: int,
    probe: DiskProbe,
    options: ReaderOptions | None = None,
) -> Iterator[Result | Skipped]:
    """`engram_96` and `engram_512`: median seconds; `ratio` is blocks read a second to the disk's rate.

    `columns` rows of each table belong to a token.
    """
    if reason := table_hole(checkpoint, plans) if table_names(plans) else "the checkpoint has no Engram tables":
        yield from (Skipped(name, reason) for name in NAMES.values())
        return
    said: list[str] = []
    reader = RowReader(checkpoint, options, said.append)
    store = StoredEngramRows(checkpoint, plans, 0, reader)
    num_rows = {layer: checkpoint.entry(f"{name}.weight").shape[0] for layer, name in table_names(plans).items()}
    run, generator = EngramRun(store, num_rows, columns), torch.Generator().manual_seed(SEED)
    try:
        # Opens the files.
        run.seconds(1, generator)
        for tokens, count in ROUNDS.items():
            rounds = [run.round(tokens, probe, generator) for _ in range(count)]
            kept = keep(rounds, probe.best_rate)
            yield _row(NAMES[tokens], kept, {"reader": reader.kind, "notices": said})
    finally:
        store.close()


def table_hole(checkpoint: Checkpoint, plans: Sequence[LayerPlan]) -> str | None:
    """The first of the tables that is not wholly on the disk, in words; None where all are."""
    parts = table_tensors(plans)
    entries = [checkpoint.entry(part) for part in parts]
    written = without_holes({each.name: [Span(each.path, each.start, each.nbytes)] for each in entries})
    if holes := [part for part in parts if part not in written]:
        return f"`{holes[0]}` has holes of a sparse file, which no disk is read for"
    return None


def _row(name: str, kept: Kept, more: dict[str, object]) -> Result:
    seconds = kept.seconds(name)
    return Result.of(
        name,
        kept,
        seconds=seconds,
        nbytes=round(kept.count(NBYTES)),
        ratio=kept.median(lambda each: each.counts[NBYTES] / each.jobs[name].seconds / each.probe_rate),
        value=seconds,
        unit="s",
        more={
            "reads": round(kept.count(READS)),
            "slowest_seconds": max(each.jobs[name].seconds for each in kept.rounds),
            "disk_gb_per_second": kept.probe_rate / 1e9,
            **more,
        },
    )
