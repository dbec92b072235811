"""One run of `shoal bench`: which kernels on how many threads, what was probed, and the report of it all."""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import torch

from shoal.assemble import MINIATURE
from shoal.bench.budget import BudgetBench, splits_of
from shoal.bench.budget_rows import NAME, budget_rows
from shoal.bench.decode import Decode
from shoal.bench.io import holes_of, io_results
from shoal.bench.kernels import KernelBench, chosen
from shoal.bench.load import drop_from_page_cache, load_results
from shoal.bench.machine import describe_machine, free_memory, usable_cores
from shoal.bench.model import BenchModel, load_model
from shoal.bench.overhead import Overhead, Serving
from shoal.bench.prefill import Prefill
from shoal.bench.probe import Probe
from shoal.bench.region import FEWEST_EXPERTS, RELEASED, ExpertRegion, ExpertShape, Say, num_experts
from shoal.bench.resident import ResidentPeak
from shoal.bench.result import Report, Result, Skipped
from shoal.bench.serve import ServeBench
from shoal.bench.shards import shards_of
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.ops.kernels import Kernels, available_isas
from shoal.plan.disk_probe import DiskProbe, DiskRate, measure_disk
from shoal.plan.stored import count_stored
from shoal.weights.load import TotalProgress

RELEASE = Path(__file__).parents[1] / "data" / "release"

Rows = Iterator[Result | Skipped]


@dataclass
class Run:
    """Make one with `create`. Every method gives rows as they are found; `report` comes last.

    Checkpoints may have more shards in the directories `also`.
    """

    isa: str
    threads: int
    say: Say
    also: tuple[Path, ...] = ()
    shape: ExpertShape = RELEASED
    probes: list[Probe] = field(default_factory=list)
    disk: DiskRate | None = None

    @classmethod
    def create(cls, isa: str | None, threads: int | None, say: Say, also: Sequence[Path] = ()) -> Self:
        """The best kernels and all usable cores unless given. OptionError for kernels the machine lacks."""
        run = cls(Kernels(isa).isa if isa else available_isas()[0], threads or usable_cores(), say, tuple(also))
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
        with self._open(directory) as checkpoint, self._loaded(checkpoint, progress) as model:
            self.say("decoding")
            yield from Decode(model, self._probe(), tokens).results(name, parts)

    def serve(self, directory: Path, requests: int, tokens: int, progress: TotalProgress | None) -> Rows:
        """Requests decoded together, beside one alone."""
        with self._open(directory) as checkpoint, self._loaded(checkpoint, progress) as model:
            self.say(f"decoding {requests} requests together, and one alone")
            yield from ServeBench(model, self._probe(), requests, tokens).results()

    def serve_overhead(self, requests: int, tokens: int, serving: Serving) -> Rows:
        """What a server adds to a token of one stream, and of so many at once, in the built-in miniature's tokens."""
        probe = self._probe()
        for count in (1, requests):
            self.say(f"{count} streamed through a server on loopback, and through the engine alone")
            yield Overhead(MINIATURE, RELEASE, serving, probe, count, tokens).result()

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
        with self._open(directory) as checkpoint, self._loaded(checkpoint, progress) as model:
            self._warn_of_other_widths(model.config, config)
            self.say(f"prompts of {', '.join(f'{length:,}' for length in lengths)} tokens")
            yield from Prefill(model, self._probe(), config, rounds).results(lengths)

    def load(self, directory: Path, progress: TotalProgress | None) -> Rows:
        """The dense weights, past the page cache and through it."""
        self.say("measuring the disk")
        with self._open(directory) as checkpoint:
            self.disk = measure_disk(shards_of(checkpoint))
        self.say("loading: past the page cache, through an empty one, from a full one")
        yield from load_results(directory, self.disk, progress, self.also)

    def io(self, directory: Path) -> Rows:
        """What the disk gives while the model runs: whole experts, Engram rows of a token and of a prompt."""
        with self._open(directory) as checkpoint, DiskProbe(shards_of(checkpoint)) as probe:
            yield from io_results(checkpoint, load_config(directory), probe, self.say)
            self._probed(probe)

    def decode_budget(
        self, directory: Path, memories: Sequence[int], tokens: int, progress: TotalProgress | None
    ) -> Rows:
        """A decoded token in each of `memories` bytes for everything. OptionError for one that does not fit."""
        splits = splits_of(count_stored(load_config(directory)), memories, tokens)
        with self._open(directory) as checkpoint:
            if holes := holes_of(checkpoint, load_config(directory)):
                yield Skipped(NAME, f"{holes}: what the disk would take cannot be measured")
                return
            with DiskProbe(shards_of(checkpoint)) as probe:
                drop_from_page_cache(shards_of(checkpoint))
                with ResidentPeak() as loading:
                    loaded = self._loaded(checkpoint, progress, hold_experts=False)
                with loaded as model:
                    bench = BudgetBench(model, checkpoint, probe, self.threads, tokens, loading, self.say)
                    yield from budget_rows([bench.run(split) for split in splits])
                self._probed(probe)

    def report(self, rows: Sequence[Result | Skipped]) -> Report:
        """All that was found, on this machine."""
        machine = describe_machine(self.isa, self.threads)
        if rates := [rate for probe in self.probes for rate in probe.rates]:
            machine = machine.with_probe(statistics.median(rates), max(rates))
        if self.disk is not None:
            machine = machine.with_disk(self.disk.per_second)
        results = [row for row in rows if isinstance(row, Result)]
        return Report(machine, results, [row for row in rows if isinstance(row, Skipped)])

    def _open(self, directory: Path) -> Checkpoint:
        return Checkpoint.open(directory, self.also)

    def _loaded(
        self, checkpoint: Checkpoint, progress: TotalProgress | None, hold_experts: bool = True
    ) -> closing[BenchModel]:
        model = load_model(checkpoint, self.isa, self.threads, self.say, hold_experts=hold_experts, progress=progress)
        return closing(model)

    def _probed(self, probe: DiskProbe) -> None:
        self.disk = DiskRate(statistics.median(run.rate for run in probe.runs), probe.direct)

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
