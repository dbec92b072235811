"""Loading the dense weights: past the page cache, through an empty one and from a full one, beside the disk probe."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from shoal.bench.model import token_map
from shoal.bench.result import Result
from shoal.bench.rounds import Kept, Round, Timing
from shoal.bench.shards import shards_of
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.plan.disk_probe import DiskRate
from shoal.weights.load import TotalProgress, load_backbone


def drop_from_page_cache(files: Sequence[Path]) -> None:
    """Ask the kernel to forget what it holds of the files; pages that others have mapped stay."""
    for file in files:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def load_results(
    directory: Path, disk: DiskRate, progress: TotalProgress | None = None, also: Sequence[Path] = ()
) -> Iterator[Result]:
    """`load_cold` past the page cache; then through it, `load_page_cache` with it empty and `load_warm` with it full.

    Nothing is warm where memory does not hold the weights twice. The token map is made before: it is kept between runs
    of the program.
    """
    config = load_config(directory)
    tokens = token_map(directory, config)
    for name, through_page_cache, is_cold in (
        ("load_cold", False, True),
        ("load_page_cache", True, True),
        ("load_warm", True, False),
    ):
        if is_cold:
            with Checkpoint.open(directory, also) as checkpoint:
                drop_from_page_cache(shards_of(checkpoint))
        busy, started = time.process_time(), time.perf_counter()
        with Checkpoint.open(directory, also) as checkpoint:
            report = load_backbone(
                config, checkpoint, token_map=tokens, progress=progress, through_page_cache=through_page_cache
            ).report
        seconds = time.perf_counter() - started
        nbytes, share = sum(report.nbytes.values()), (time.process_time() - busy) / seconds
        rate = nbytes / seconds
        kept = Kept([Round(disk.per_second, 1.0, {name: Timing(seconds, share)})], 0, False)
        more = {
            "disk_gb_per_second": disk.per_second / 1e9,
            "direct": disk.direct and not through_page_cache,
            "busy_seconds": share * seconds,
        }
        yield Result.of(
            name,
            kept,
            seconds=seconds,
            nbytes=nbytes,
            ratio=rate / disk.per_second,
            value=rate / 1e9,
            unit="GB/s",
            more=more,
        )
