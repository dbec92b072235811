"""`shoal doctor`: is this machine fit to run the model, and if not, what to do."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from shoal.checkpoint.index import SHARD_SUFFIX
from shoal.checkpoint.inventory import ROUTED
from shoal.cli.instruction_set import forced_isa
from shoal.cli.ticker import Ticker
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.doctor.bandwidth import examine_disk_rate, examine_memory_rate
from shoal.doctor.cores import affinity, examine_cores, read_cores
from shoal.doctor.disk import examine_disk, examine_space, read_disk
from shoal.doctor.finding import Finding, has_problem, ok, problem, tally, warning
from shoal.doctor.libraries import (
    examine_libraries,
    examine_python,
    installed_requirements,
    installed_version,
)
from shoal.doctor.limits import examine_limits, read_limits
from shoal.doctor.memory import examine_huge_pages, examine_memory, read_memory
from shoal.doctor.processor import examine_processor, read_processor
from shoal.errors import CheckpointError, ConfigError, OptionError
from shoal.plan.disk_probe import measure_disk
from shoal.plan.memory_probe import buffer_nbytes, measure_memory
from shoal.plan.memory_split import Workload, smallest_memory, split_memory
from shoal.plan.stored import Stored, count_stored
from shoal.plan.traffic import Traffic

PROC, SYS = Path("/proc"), Path("/sys")
CGROUP = SYS / "fs" / "cgroup"
RELEASE = Path(__file__).parents[1] / "data" / "release"
CONTEXT = 4096


def command(
    checkpoint: Annotated[Path | None, typer.Argument(help="A checkpoint directory, whole or not.")] = None,
) -> None:
    """Examine this machine: a line each, `ok`, `warning` or `problem`, and what to do."""
    if checkpoint is not None and not checkpoint.is_dir():
        raise CheckpointError(f"`{checkpoint}` is not a directory, wanted a checkpoint directory")
    findings = []
    with Ticker(lambda: "examining memory and disk"):
        for finding in _examine(checkpoint):
            findings.append(finding)
            print(finding.line(), flush=True)
    print(tally(findings))
    if has_problem(findings):
        raise typer.Exit(1)


def _examine(checkpoint: Path | None) -> Iterator[Finding]:
    config, complaint = _config(checkpoint)
    if complaint is not None:
        yield complaint
    stored = count_stored(config)
    shards = sorted(checkpoint.glob(f"*{SHARD_SUFFIX}")) if checkpoint else []
    yield from _examine_machine(stored, len(shards))
    if checkpoint is None:
        yield ok("disk", "not examined; `shoal doctor CHECKPOINT` looks at the disk of a checkpoint")
    else:
        yield from _examine_disk(checkpoint, shards, stored)
    yield examine_python()
    yield from examine_libraries(installed_requirements(), installed_version)


def _config(checkpoint: Path | None) -> tuple[ModelConfig, Finding | None]:
    """The model to judge by: the checkpoint's, else the release's, and what is wrong with the checkpoint's."""
    release = load_config(RELEASE)
    if checkpoint is None:
        return release, None
    try:
        config = load_config(checkpoint)
    except ConfigError as error:
        found = f"{error.message}; judged by the released model's"
        return release, problem("config", found, "fetch the checkpoint's `config.json`")
    if problems := config.verify():
        advice = f"`shoal config {checkpoint}` lists all problems"
        return release, problem("config", f"{problems[0]}; judged by the released model's", advice)
    return config, None


def _examine_machine(stored: Stored, shards: int) -> Iterator[Finding]:
    cores = read_cores(PROC, CGROUP, affinity())
    yield from examine_processor(read_processor(PROC), _kernels())
    yield examine_cores(cores)
    smallest = _smallest(stored).memory
    yield from examine_limits(read_limits(), mapped=stored.total, resident=smallest, shards=shards)
    yield examine_huge_pages(SYS)
    try:
        memory = read_memory(PROC, CGROUP)
        rate = measure_memory(cores.usable, buffer_nbytes(cores.usable, memory.usable))
    except OptionError as error:
        yield warning("memory", error.message, "run on Linux with free memory to have it measured")
        return
    yield examine_memory(memory, smallest)
    yield examine_memory_rate(rate.per_second, rate.processor_share, _token(stored).memory_nbytes)


def _kernels() -> list[str] | None:
    """The native kernels that would run, the one chosen first; None where there are none."""
    try:
        from shoal.ops.kernels import available_isas
    except ImportError:
        return None
    return sorted(available_isas(), key=lambda isa: isa != forced_isa())


def _examine_disk(checkpoint: Path, shards: list[Path], stored: Stored) -> Iterator[Finding]:
    # The hub's cache keeps the files elsewhere and links to them.
    folder = shards[0].resolve().parent if shards else checkpoint.resolve()
    yield examine_disk(read_disk(folder, PROC, SYS))
    present = sum(shard.stat().st_size for shard in shards if shard.exists())
    yield examine_space(shutil.disk_usage(folder).free, stored.total - present)
    try:
        rate = measure_disk([shard for shard in shards if shard.exists()])
    except OptionError as error:
        yield warning("disk bandwidth", error.message, "ask again once shards have arrived")
        return
    yield examine_disk_rate(rate.per_second, rate.direct, _token(stored).from_memory[ROUTED])


def _token(stored: Stored) -> Traffic:
    return Traffic(split_memory(stored, _smallest(stored)), tokens=1, sequences=1)


def _smallest(stored: Stored) -> Workload:
    """One sequence of moderate length in the smallest memory that serves it."""
    context = min(CONTEXT, stored.config.context_length)
    return Workload(smallest_memory(stored, Workload(0, context, 1)), context, 1)
