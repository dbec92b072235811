"""Decoding in a budget of memory: from a store that is empty, and once it has filled, beside what bounds it.

Token ids are drawn evenly from the vocabulary, the same for every budget. The router of a synthetic checkpoint is
random too, so experts are picked nearly evenly and independently, and the share that hits is about the share that is
held; text, which comes back to its experts, hits more.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.bench.load import drop_from_page_cache
from shoal.bench.machine import PROC, free_memory
from shoal.bench.model import BenchModel, bring_in
from shoal.bench.region import RESERVE_NBYTES, Say
from shoal.bench.resident import ResidentPeak
from shoal.bench.rounds import Kept, Round, Timing, keep, of_disk, timed
from shoal.bench.shards import shards_of
from shoal.bench.stores import Stores
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import plan_layers
from shoal.doctor.processor import read_processor
from shoal.errors import OptionError
from shoal.model.cache import SequenceCache
from shoal.plan.disk_probe import DiskProbe
from shoal.plan.estimate import Estimate
from shoal.plan.memory_probe import buffer_nbytes, measure_memory
from shoal.plan.memory_split import MemorySplit, Workload, split_memory
from shoal.plan.rates import ASSUMED, SHARE, SHARE_WITHOUT_AVX512, Rate, Rates
from shoal.plan.size import gib
from shoal.plan.stored import Stored

COLD_TOKENS, SETTLE_TOKENS = 4, 8
"""The first ones, and those after them that nobody counts: the store fills."""
PROBE_SECONDS = 0.3
TOKEN, SEED = "token", 23


@dataclass(frozen=True)
class Compute:
    """Seconds of a token whose experts are all there, and where the number comes from."""

    seconds: float
    origin: str
    contended: bool


@dataclass(frozen=True)
class BudgetRun:
    """What one budget gave. `warm_is_full`: the store had filled before the warm tokens."""

    split: MemorySplit
    slots: int
    compute: Compute
    cold: Kept
    warm: Kept
    warm_is_full: bool
    peak: ResidentPeak
    loading: ResidentPeak


def splits_of(stored: Stored, memories: Sequence[int], tokens: int) -> list[MemorySplit]:
    """The planner's split of each budget. OptionError for one that is too small or larger than what is free."""
    context = COLD_TOKENS + SETTLE_TOKENS + tokens
    splits = [split_memory(stored, Workload(memory, context, 1)) for memory in memories]
    free = free_memory()
    for split in splits:
        if split.used > free:
            found = f"{gib(split.workload.memory)} of memory would take {gib(split.used)}"
            raise OptionError(f"{found}, but {gib(free)} is free", hint="give less, or end other programs")
    return splits


@dataclass(frozen=True)
class BudgetBench:
    """`tokens` warm tokens in each budget; `loading` watched the model being loaded."""

    model: BenchModel
    checkpoint: Checkpoint
    probe: DiskProbe
    threads: int
    tokens: int
    loading: ResidentPeak
    say: Say

    def run(self, split: MemorySplit) -> BudgetRun:
        """First what bounds it, then the budget: nothing of the checkpoint is in the page cache, nothing in the
        store."""
        compute = self._compute(split)
        self.say(f"decoding in {gib(split.workload.memory)}")
        drop_from_page_cache(shards_of(self.checkpoint))
        peak, before_warm = ResidentPeak(), COLD_TOKENS + SETTLE_TOKENS
        with self._stores(split, split.cached_experts * split.stored.expert_nbytes) as stores:
            each = self._rounds(stores, peak)
            rounds = list(itertools.islice(each, before_warm))
            is_full, slots = stores.is_full, stores.experts.arena.num_slots
            rounds += each
        best = self.probe.best_rate
        cold, warm = keep(rounds[:COLD_TOKENS], best), keep(rounds[before_warm:], best)
        return BudgetRun(split, slots, compute, cold, warm, is_full, peak, self.loading)

    def _rounds(self, stores: Stores, peak: ResidentPeak) -> Iterator[Round]:
        cache, before = self.model.backbone.new_cache(), stores.counts()
        for token in self._ids():
            rate = self.probe.run(PROBE_SECONDS)
            with peak:
                timing = self._step(token, cache)
            after = stores.counts()
            yield of_disk(rate, timing.seconds, TOKEN, {name: after[name] - before[name] for name in after})
            before = after

    def _compute(self, split: MemorySplit) -> Compute:
        """The same tokens with every expert present where all fit, else as the planner foresees them."""
        stored = self.model.stored
        if stored.num_experts * stored.expert_nbytes + RESERVE_NBYTES > free_memory():
            return self._foreseen(split)
        self.say("bringing all experts into memory, then decoding")
        plans = [plan for plan in plan_layers(self.model.config) if not plan.is_draft]
        cache = self.model.backbone.new_cache()
        with self._stores(split, None) as stores:
            bring_in(stores.experts, plans, self.model.config, lambda text: None)
            timings = [self._step(token, cache) for token in self._ids()][COLD_TOKENS + SETTLE_TOKENS :]
        kept = keep([Round(1.0, 1.0, {TOKEN: timing}) for timing in timings], 1.0)
        return Compute(kept.seconds(TOKEN), "all experts in memory", kept.contended)

    def _foreseen(self, split: MemorySplit) -> Compute:
        self.say("not all experts fit: measuring the memory instead")
        rate = measure_memory(self.threads, buffer_nbytes(self.threads, free_memory())).per_second
        share = SHARE if "avx512f" in read_processor(PROC).instruction_sets else SHARE_WITHOUT_AVX512
        rates = Rates(Rate(rate, "measured"), ASSUMED.disk, ASSUMED.arithmetic, share)
        origin = f"bytes over {share:.2f} of the memory's {rate / 1e9:.1f} GB/s"
        return Compute(Estimate(split, rates).step_memory_seconds, origin, False)

    def _stores(self, split: MemorySplit, expert_nbytes: int | None) -> Stores:
        row_nbytes = split.cached_rows * split.stored.engram_row_nbytes
        return Stores(self.model, self.checkpoint, expert_nbytes, row_nbytes, self.say)

    def _step(self, token: int, cache: SequenceCache) -> Timing:
        return timed([lambda: self.model.step([token], cache)], self.threads)

    def _ids(self) -> list[int]:
        count, vocabulary = COLD_TOKENS + SETTLE_TOKENS + self.tokens, range(self.model.config.vocab_size)
        return random.Random(SEED).choices(vocabulary, k=count)
