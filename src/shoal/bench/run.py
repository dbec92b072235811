"""One run of `shoal bench`: which kernels on how many threads, what was probed, and the report of it all."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import torch

from shoal.bench.decode import Decode
from shoal.bench.engram import engram_results
from shoal.bench.kernels import KernelBench, chosen
from shoal.bench.load import disk_rate, load_results
from shoal.bench.machine import describe_machine, free_memory, usable_cores
from shoal.bench.model import load_model
from shoal.bench.prefill import Prefill
from shoal.bench.probe import Probe
from shoal.bench.region import FEWEST_EXPERTS, RELEASED, ExpertRegion, ExpertShape, Say, num_experts
from shoal.bench.result import Report, Result, Skipped
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.engram.layout import derive_layout
from shoal.ops.kernels import Kernels, available_isas
from shoal.plan.disk_probe import DiskRate
from shoal.weights.load import TotalProgress

RELEASE = Path(__file__).parents[1] / "data" / "release"

Rows = Iterator[Result | Skipped]


@dataclass
class Run:
    """Make one with `create`. Every method gives rows as they are found; `report` comes last."""

    isa: str
    threads: int
    say: Say
    shape: ExpertShape = RELEASED
    probes: list[Probe] = field(default_factory=list)
    disk: DiskRate | None = None

    @classmethod
    def create(cls, isa: str | None, threads: int | None, say: Say) -> Self:
        """The best kernels and all usable cores unless given. OptionError for kernels the machine lacks."""
        run = cls(Kernels(isa).isa if isa else available_isas()[0], threads or usable_cores(), say)
        torch.set_num_threads(run.threads)
        return run

    def kernels(self, only: Sequence[str], rounds: int, peers: Path | None) -> Rows:
        """The table of kernels, or the rows called `only`."""
        cases = chosen(only)
        bench = KernelBench(self.isa, self.threads, rounds, self.say, peers, self.shape)
        workbench = bench.prepare()
        self.probes.append(workbench.probe)
        yield from bench.run(workbench, cases)

    def decode(self, directory: Path, name: str, tokens: int, parts: bool, progress: TotalProgress | None) -> Rows:
        """A decoded token of the checkpoint."""
        with Checkpoint.open(directory) as checkpoint:
            model = load_model(checkpoint, self.isa, self.threads, self.say, progress=progress)
            self.say("decoding")
            yield from Decode(model, self._probe(), tokens).results(name, parts)

    def prefill(
        self,
        directory: Path,
        lengths: Sequence[int],
        rounds: int,
        whole: Path | None,
        progress: TotalProgress | None,
    ) -> Rows:
        """Prompts through the checkpoint's layers, for all layers of the configuration at `whole`, else the release."""
        config = load_config(whole or RELEASE)
        with Checkpoint.open(directory) as checkpoint:
            model = load_model(checkpoint, self.isa, self.threads, self.say, progress=progress)
            self._warn_of_other_widths(model.config, config)
            self.say(f"prompts of {', '.join(f'{length:,}' for length in lengths)} tokens")
            yield from Prefill(model, self._probe(), config, rounds).results(lengths)

    def load(self, directory: Path, progress: TotalProgress | None) -> Rows:
        """The dense weights, cold and warm."""
        self.say("measuring the disk")
        self.disk = disk_rate(directory)
        self.say("loading, cold then warm")
        yield from load_results(directory, self.disk, progress)

    def io(self, directory: Path) -> Rows:
        """What the disk gives while the model runs: rows of a token and of a prompt."""
        self.say("measuring the disk")
        self.disk = disk_rate(directory)
        config = load_config(directory)
        if not config.has_engram:
            yield Skipped("engram_96", "the checkpoint has no Engram tables")
            return
        self.say("reading Engram rows")
        columns = len(derive_layout(config).layers[0].buckets)
        with Checkpoint.open(directory) as checkpoint:
            yield from engram_results(checkpoint, plan_layers(config), columns, self.disk)

    def report(self, rows: Sequence[Result | Skipped]) -> Report:
        """All that was found, on this machine."""
        machine = describe_machine(self.isa, self.threads)
        if rates := [rate for probe in self.probes for rate in probe.rates]:
            machine = machine.with_probe(statistics.median(rates), max(rates))
        if self.disk is not None:
            machine = machine.with_disk(self.disk.per_second)
        results = [row for row in rows if isinstance(row, Result)]
        return Report(machine, results, [row for row in rows if isinstance(row, Skipped)])

    def _probe(self) -> Probe:
        """Beside a model, which needs the memory: the fewest experts that no cache holds."""
        count = min(FEWEST_EXPERTS, num_experts(self.shape, free_memory(), lambda text: None))
        probe = Probe(Kernels(self.isa, self.threads), self.threads, ExpertRegion(self.shape, count))
        probe.wake()
        self.probes.append(probe)
        return probe

    def _warn_of_other_widths(self, measured: ModelConfig, whole: ModelConfig) -> None:
        if measured.dim != whole.dim:
            self.say(
                f"the checkpoint is {measured.dim} wide and the configuration {whole.dim}: the sum over its layers "
                "says nothing about that model"
            )
