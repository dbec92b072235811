"""A decoded token: its bytes as stored over its seconds, as a share of the probe that runs between tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

from shoal.bench.model import BenchModel
from shoal.bench.probe import Probe
from shoal.bench.result import Result
from shoal.bench.rounds import Kept, Round, Timing, keep, timed
from shoal.bench.stopwatch import Stopwatch, time_sublayers
from shoal.checkpoint.inventory import ATTENTION, LAYER, ROUTED, SHARED
from shoal.model.cache import SequenceCache
from shoal.plan.memory_split import Workload, smallest_memory, split_memory
from shoal.plan.stored import ENGRAM_PROJECTIONS, HEAD
from shoal.plan.traffic import KV_CACHE, Traffic

PROMPT_TOKENS, WARM_TOKENS = 8, 2
TOKEN, OTHER = "token", "the rest"
PARTS = {
    "attention": (ATTENTION, KV_CACHE, LAYER),
    "experts": (ROUTED, SHARED),
    "Engram": (ENGRAM_PROJECTIONS,),
    OTHER: (HEAD,),
}
"""What each timed part reads. Mixes and routers are in attention, whose native calls they are part of."""


@dataclass(frozen=True)
class Decode:
    """Greedy tokens one by one, after a short prompt."""

    model: BenchModel
    probe: Probe
    tokens: int

    def results(self, name: str, parts: bool) -> Iterator[Result]:
        """A row for the token and, with `parts`, one for each part of it."""
        watch = Stopwatch()
        if parts:
            time_sublayers(self.model.backbone, watch)
        rounds = list(self._rounds(watch))
        kept = keep(rounds, self.probe.best_rate)
        traffic = self.traffic()
        yield self._row(name, kept, TOKEN, round(sum(traffic.values())))
        for part, kinds in PARTS.items():
            if parts and part in rounds[0].jobs:
                yield self._row(f"{name}: {part}", kept, part, round(sum(traffic.get(kind, 0) for kind in kinds)))

    def traffic(self) -> dict[str, float]:
        """Bytes that a token reads, as stored, by class."""
        stored = self.model.stored
        context = PROMPT_TOKENS + self.tokens
        workload = Workload(smallest_memory(stored, Workload(0, context, 1)), context, 1)
        return Traffic(split_memory(stored, workload), tokens=1, sequences=1).from_memory

    def _rounds(self, watch: Stopwatch) -> Iterator[Round]:
        cache = self.model.backbone.new_cache()
        token = self.model.step(self.model.prompt(PROMPT_TOKENS), cache)
        for index in range(WARM_TOKENS + self.tokens):
            watch.reset()
            rate, probe = self.probe.run()
            token, timing = self._timed_step(token, cache)
            if index >= WARM_TOKENS:
                yield Round(rate, probe.share, {TOKEN: timing, **_parts(watch, timing)})

    def _timed_step(self, token: int, cache: SequenceCache) -> tuple[int, Timing]:
        tokens = [token]
        timing = timed([lambda: tokens.append(self.model.step(tokens[-1:], cache))], self.probe.threads)
        return tokens[-1], timing

    def _row(self, name: str, kept: Kept, part: str, nbytes: int) -> Result:
        ratio = kept.median(lambda each: nbytes / each.jobs[part].seconds / each.probe_rate)
        return Result.of(
            name,
            kept,
            seconds=kept.seconds(part),
            nbytes=nbytes,
            ratio=ratio,
            value=1 / kept.seconds(part),
            unit="tokens a second" if part == TOKEN else "a second",
            more={"probe_gb_per_second": kept.probe_rate / 1e9, "experts": self.model.experts},
        )


def _parts(watch: Stopwatch, whole: Timing) -> dict[str, Timing]:
    """The stopwatch's parts and what is left of the token; the share is the token's, which decides what is dropped."""
    if not watch.seconds:
        return {}
    parts = {part: Timing(seconds, whole.share) for part, seconds in watch.seconds.items()}
    return parts | {OTHER: Timing(whole.seconds - sum(watch.seconds.values()), whole.share)}
