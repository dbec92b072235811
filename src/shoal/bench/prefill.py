"""A prompt on a few whole layers, and what that makes for all layers of a configuration.

Seconds of the whole model = what is outside the layers (embedding, head) + for every kind of layer, the mean seconds
of the measured layers of that kind x how many of them the configuration has. A kind is a mode, a compress ratio and
whether there is an Engram; one that was not measured takes the mean of the measured layers, and is named.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shoal.bench.model import BenchModel
from shoal.bench.probe import Probe
from shoal.bench.result import Result
from shoal.bench.rounds import Kept, Round, Timing, keep, timed
from shoal.bench.stopwatch import Stopwatch, layer_part, time_layers
from shoal.config.layer_plan import LayerPlan, plan_layers
from shoal.config.schema import ModelConfig

PASS = "pass"
Kind = str


def kind_of(plan: LayerPlan) -> Kind:
    """What a layer's time depends on, in words."""
    ratio = f" of ratio {plan.compress_ratio}" if plan.compress_ratio else ""
    return f"{plan.mode.value}{ratio}{' with Engram' if plan.engram_index is not None else ''}"


def count_kinds(config: ModelConfig) -> Counter[Kind]:
    """How many backbone layers of each kind a configuration has."""
    return Counter(kind_of(plan) for plan in plan_layers(config) if not plan.is_draft)


@dataclass(frozen=True)
class Extrapolation:
    """Seconds of the measured layers by kind, of what is outside them, and the layers wanted."""

    by_kind: Mapping[Kind, float]
    outside: float
    wanted: Mapping[Kind, int]

    @property
    def missing(self) -> tuple[Kind, ...]:
        """Kinds that were not measured."""
        return tuple(kind for kind in self.wanted if kind not in self.by_kind)

    @property
    def seconds(self) -> float:
        """Of all wanted layers and what is outside."""
        mean = statistics.fmean(self.by_kind.values())
        return self.outside + sum(self.by_kind.get(kind, mean) * count for kind, count in self.wanted.items())


@dataclass(frozen=True)
class Prefill:
    """Prompts through the layers of `model`, extrapolated to those of `whole`."""

    model: BenchModel
    probe: Probe
    whole: ModelConfig
    rounds: int

    def results(self, lengths: Sequence[int]) -> Iterator[Result]:
        """A row for every length of prompt."""
        watch = Stopwatch()
        time_layers(self.model.backbone, watch)
        for length in lengths:
            self._pass(length)
            yield self._row(
                length, keep([self._round(length, watch) for _ in range(self.rounds)], self.probe.best_rate)
            )

    def _pass(self, length: int) -> None:
        self.model.step(self.model.prompt(length), self.model.backbone.new_cache())

    def _round(self, length: int, watch: Stopwatch) -> Round:
        rate, probe = self.probe.run()
        watch.reset()
        whole = timed([lambda: self._pass(length)], self.probe.threads)
        layers = {part: Timing(seconds, whole.share) for part, seconds in watch.seconds.items()}
        return Round(rate, probe.share, {PASS: whole, **layers})

    def _row(self, length: int, kept: Kept) -> Result:
        found = self._extrapolate(kept)
        rate = length / found.seconds
        return Result.of(
            f"prefill_{length}",
            kept,
            seconds=found.seconds,
            nbytes=0,
            ratio=rate,
            value=rate,
            unit="tokens a second",
            more={
                "measured_seconds": kept.seconds(PASS),
                "outside_seconds": found.outside,
                "layer_seconds": dict(found.by_kind),
                "layers": dict(found.wanted),
                "assumed_kinds": list(found.missing),
                "probe_gb_per_second": kept.probe_rate / 1e9,
                "experts": self.model.experts,
            },
        )

    def _extrapolate(self, kept: Kept) -> Extrapolation:
        seconds: dict[Kind, list[float]] = defaultdict(list)
        for plan in plan_layers(self.model.config):
            if not plan.is_draft:
                seconds[kind_of(plan)].append(kept.seconds(layer_part(plan.layer_id)))
        outside = kept.seconds(PASS) - sum(map(sum, seconds.values()))
        by_kind = {kind: statistics.fmean(values) for kind, values in seconds.items()}
        return Extrapolation(by_kind, max(0.0, outside), count_kinds(self.whole))
