"""Engram rows from the disk: those of one token, and those of a prompt, with nothing of them in memory.

Rows are drawn evenly from the tables, as hashes do, and the store keeps none. Where the file system has O_DIRECT
nothing comes from the page cache; the result says whether it has, and which reader there was.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from shoal.bench.result import Result
from shoal.bench.rounds import Kept, Round, Timing
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.plan.disk_probe import DiskRate
from shoal.weights.engram_store import StoredEngramRows
from shoal.weights.engram_tables import table_names
from shoal.weights.row_reader import ReaderOptions, RowReader

ROUNDS = {1: 15, 512: 3}
# A prompt's figure is named by its tokens, a token's by its reads in the release: 48 rows, codes and scales.
NAMES = {1: "engram_96", 512: "engram_512"}
SEED = 17


@dataclass(frozen=True)
class EngramRun:
    """Rows of `tokens` tokens, requested for all layers and then gathered layer by layer."""

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


def engram_results(
    checkpoint: Checkpoint,
    plans: Sequence[LayerPlan],
    columns: int,
    disk: DiskRate,
    options: ReaderOptions | None = None,
) -> Iterator[Result]:
    """`engram_96` and `engram_512`: median seconds; `ratio` is blocks read a second to the disk's rate.

    `columns` rows of each table belong to a token.
    """
    said: list[str] = []
    reader = RowReader(checkpoint, options, said.append)
    store = StoredEngramRows(checkpoint, plans, 0, reader)
    num_rows = {layer: checkpoint.entry(f"{name}.weight").shape[0] for layer, name in table_names(plans).items()}
    run, generator = EngramRun(store, num_rows, columns), torch.Generator().manual_seed(SEED)
    try:
        # Opens the files.
        run.seconds(1, generator)
        for tokens, rounds in ROUNDS.items():
            before = _counts(store)
            times = [run.seconds(tokens, generator) for _ in range(rounds)]
            reads, nbytes = (now - then for now, then in zip(_counts(store), before, strict=True))
            seconds = statistics.median(times)
            kept = Kept([Round(disk.per_second, 1.0, {NAMES[tokens]: Timing(each, 1.0)}) for each in times], 0, False)
            rate = nbytes / sum(times)
            more = {
                "reads": reads // rounds,
                "reader": reader.kind,
                "notices": said,
                "slowest_seconds": max(times),
                "disk_gb_per_second": disk.per_second / 1e9,
            }
            yield Result.of(
                NAMES[tokens],
                kept,
                seconds=seconds,
                nbytes=nbytes // rounds,
                ratio=rate / disk.per_second,
                value=seconds,
                unit="s",
                more=more,
            )
    finally:
        store.close()


def _counts(store: StoredEngramRows) -> tuple[int, int]:
    return store.statistics.reads, store.statistics.nbytes_read
