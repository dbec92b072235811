"""`shoal plan`: what will fit, what lives where, and how fast it can be, before anything is loaded or downloaded."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shoal.checkpoint.index import SHARD_SUFFIX
from shoal.cli.config import summary
from shoal.cli.json_output import write_json
from shoal.cli.ticker import Ticker
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.doctor.cores import affinity, read_cores
from shoal.doctor.memory import read_memory
from shoal.doctor.processor import read_processor
from shoal.errors import ConfigError, OptionError
from shoal.plan.arithmetic_probe import measure_arithmetic
from shoal.plan.budget import free_budget
from shoal.plan.disk_probe import measure_disk
from shoal.plan.estimate import Estimate
from shoal.plan.memory_probe import buffer_nbytes, measure_memory
from shoal.plan.memory_split import Workload, split_by_default, split_memory
from shoal.plan.rates import ASSUMED, SHARE, SHARE_WITHOUT_AVX512, Rate, Rates
from shoal.plan.report import as_json, lines
from shoal.plan.size import gib, parse_size
from shoal.plan.stored import count_stored

DEFAULT_CONTEXT = 32_768
PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


def command(
    checkpoint: Annotated[
        Path | None,
        typer.Argument(help="A checkpoint directory; only its config is read, its shards with --measure."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A config.json instead: no checkpoint is needed.")] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="The budget: 24GiB, 64G (binary), 512MB (decimal), bytes. Default: what is free, less 5 %."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of a sequence, and room for just these. Default: what a run makes room for."),
    ] = None,
    sequences: Annotated[int, typer.Option(min=1, help="Sequences decoded together.")] = 1,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Measure this machine's memory, arithmetic and the checkpoint's disk."),
    ] = False,
    memory_bandwidth: Annotated[float | None, typer.Option(help="GB/s that memory can stream.")] = None,
    disk_bandwidth: Annotated[float | None, typer.Option(help="GB/s that the disk can stream.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the plan to this file too.")] = None,
) -> None:
    """Print where everything lives in a memory budget, and the speed to expect."""
    if (checkpoint is None) == (config is None):
        raise typer.BadParameter("give either a CHECKPOINT or --config")
    model = _load(checkpoint or config or Path())
    budget = parse_size(memory) if memory is not None else free_budget(read_memory(PROC, CGROUP).usable)
    stored, tokens = count_stored(model), min(DEFAULT_CONTEXT, model.context_length) if context is None else context
    split = (split_by_default if context is None else split_memory)(stored, Workload(budget, tokens, sequences))
    rates = _Sources(checkpoint, measure, _gigabytes(memory_bandwidth), _gigabytes(disk_bandwidth)).rates()
    estimate = Estimate(split, rates)
    if json_file is not None:
        write_json(json_file, as_json(estimate))
    print(f"{summary(model)}\n{gib(split.stored.total)} as released\n")
    print("\n".join(lines(estimate)))


def _load(path: Path) -> ModelConfig:
    config = load_config(path)
    if problems := config.verify():
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(f"`{path}` contradicts itself: {problems[0]}{more}", hint="`shoal config` lists them all")
    return config


def _gigabytes(per_second: float | None) -> Rate | None:
    return None if per_second is None else Rate(per_second * 1e9, "given")


@dataclass(frozen=True)
class _Sources:
    """Where each rate comes from: what was given, else what is measured, else what is assumed."""

    checkpoint: Path | None
    measure: bool
    memory: Rate | None
    disk: Rate | None

    def rates(self) -> Rates:
        with Ticker(lambda: "measuring memory, arithmetic and disk", quiet=not self.measure):
            memory = self.memory or (self._memory() if self.measure else ASSUMED.memory)
            arithmetic = self._arithmetic() if self.measure else ASSUMED.arithmetic
            disk = self.disk or (self._disk() if self.measure else ASSUMED.disk)
        return Rates(memory, disk, arithmetic, self._share())

    def _share(self) -> float:
        """Of this processor's kernels where it is measured; a plan for another machine takes the better ones."""
        here = "avx512f" in read_processor(PROC).instruction_sets or not self.measure
        return SHARE if here else SHARE_WITHOUT_AVX512

    def _memory(self) -> Rate:
        cores = read_cores(PROC, CGROUP, affinity()).usable
        nbytes = buffer_nbytes(cores, read_memory(PROC, CGROUP).usable)
        return Rate(measure_memory(cores, nbytes).per_second, "measured")

    def _arithmetic(self) -> Rate:
        found = measure_arithmetic()
        return _assumed("arithmetic", "torch is not installed") if found is None else Rate(found, "measured")

    def _disk(self) -> Rate:
        shards = sorted(self.checkpoint.glob(f"*{SHARD_SUFFIX}")) if self.checkpoint else []
        if not shards:
            return _assumed("disk", "there is no shard to read")
        try:
            return Rate(measure_disk(shards).per_second, "measured")
        except OptionError as error:
            return _assumed("disk", error.message)


def _assumed(name: str, reason: str) -> Rate:
    print(f"{name} is assumed, not measured: {reason}", file=sys.stderr)
    rate: Rate = getattr(ASSUMED, name)
    return rate
