"""Where a checkpoint lives in the budget of a run: what of each class is in memory, what is left on the disk."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from shoal.checkpoint.inventory import ROUTED, VISION
from shoal.errors import OptionError
from shoal.plan.activations import activations
from shoal.plan.budget import Budget, plan_budget
from shoal.plan.kv_cache import KVCache
from shoal.plan.least_memory import Wishes, least_parts
from shoal.plan.stored import DRAFT_LAYERS, ENGRAM_TABLES, Stored


@dataclass(frozen=True)
class Workload:
    """How much memory there is, in bytes, and what it has to serve: sequences of `context` tokens each."""

    memory: int
    context: int
    sequences: int


@dataclass(frozen=True)
class Holding:
    """A line of the split, in bytes: what the checkpoint stores of it (None: nothing), and what is in memory."""

    name: str
    stored: int | None
    in_memory: int
    note: str


@dataclass(frozen=True)
class MemorySplit:
    """Where everything lives in a run of this `budget`. Experts and rows are counted whole, so a little may be left.

    `cache` is of the workload's context, whatever the budget has room for.
    """

    stored: Stored
    workload: Workload
    cache: KVCache
    budget: Budget

    @property
    def cached_experts(self) -> int:
        """Experts that memory holds."""
        nbytes, every = self.budget.experts, self.stored.num_experts
        return every if nbytes is None else min(every, nbytes // self.stored.expert_nbytes)

    @property
    def cached_rows(self) -> int:
        """Engram rows that memory holds."""
        nbytes, every = self.budget.engram, self.stored.num_engram_rows
        return every if nbytes is None else min(every, nbytes // max(1, self.stored.engram_row_nbytes))

    @property
    def expert_hit_rate(self) -> float:
        """The share of experts in memory: the chance of a hit when every token picks evenly and independently."""
        return self.cached_experts / self.stored.num_experts

    @property
    def row_hit_rate(self) -> float:
        """The share of Engram rows in memory; 1 where there is no table to miss."""
        rows = self.stored.num_engram_rows
        return self.cached_rows / rows if rows else 1.0

    @property
    def used(self) -> int:
        """Bytes of all holdings."""
        return sum(holding.in_memory for holding in self.holdings())

    def holdings(self) -> Iterator[Holding]:
        """The lines of the split, what must be in memory first."""
        stored, budget, cache = self.stored, self.budget, self.cache
        alone = " of one sequence alone" if self.workload.sequences > 1 else ""
        kv = f"room for {budget.context:,} tokens{alone}: "
        kv += f"{cache.token_nbytes:,.0f} B a token + {cache.fixed_nbytes / 1e6:.1f} MB a sequence"
        experts = f"{self.cached_experts:,} of {stored.num_experts:,} experts of {stored.expert_nbytes:,} B"
        rows = f"{self.cached_rows:,} of {stored.num_engram_rows:,} rows of {stored.engram_row_nbytes} B"
        yield Holding("dense weights", stored.dense, stored.dense, "always in memory, packed as stored")
        yield Holding("program", None, budget.program, "assumed: interpreter and libraries")
        yield Holding("activations", None, budget.activations, f"prompts are read {budget.chunk:,} tokens at once")
        yield Holding("KV cache", None, budget.kv, kv)
        yield self._left(ROUTED, self.cached_experts * stored.expert_nbytes, experts)
        yield self._left(ENGRAM_TABLES, self.cached_rows * stored.engram_row_nbytes, rows)
        yield self._left(DRAFT_LAYERS, 0, "loaded only when used")
        yield self._left(VISION, 0, "loaded only when used")

    def _left(self, kind: str, in_memory: int, note: str) -> Holding:
        nbytes = self.stored.nbytes.get(kind, 0)
        return Holding(kind, nbytes, in_memory, note if nbytes else "this model has none")


def split_memory(stored: Stored, workload: Workload) -> MemorySplit:
    """As a run splits it whose KV cache is given (`--kv-memory`) just what the workload's sequences take.

    `OptionError` names the term that does not fit and the smallest budget that would do.
    """
    return _split(stored, workload, _wishes(stored, workload))


def split_by_default(stored: Stored, workload: Workload) -> MemorySplit:
    """As a run splits it that is told of its memory and sequences alone. The context is what tokens are estimated at:
    at most the workload's, and what the KV cache has room for.
    """
    _check(stored, workload)
    return _split(stored, workload, Wishes(memory=workload.memory, sequences=workload.sequences))


def smallest_memory(stored: Stored, workload: Workload) -> int:
    """The smallest budget in bytes that serves the workload, whatever its own budget is."""
    return least_parts(stored, _wishes(stored, workload), activations(stored.config)).nbytes


def _split(stored: Stored, workload: Workload, wishes: Wishes) -> MemorySplit:
    """The run's budget, and of the workload's context what its KV cache has room for: all of it where that is given."""
    budget = plan_budget(stored, wishes, workload.memory, activations(stored.config))
    workload = replace(workload, context=min(workload.context, budget.context))
    return MemorySplit(stored, workload, KVCache(stored.config, workload.context), budget)


def _wishes(stored: Stored, workload: Workload) -> Wishes:
    _check(stored, workload)
    nbytes = workload.sequences * KVCache(stored.config, workload.context).sequence_nbytes
    return Wishes(memory=workload.memory, kv=nbytes, sequences=workload.sequences)


def _check(stored: Stored, workload: Workload) -> None:
    longest = stored.config.context_length
    if not 1 <= workload.context <= longest:
        raise OptionError(f"the context is {workload.context:,} tokens, wanted 1 to the model's {longest:,}")
    if workload.sequences < 1:
        raise OptionError(f"the number of sequences is {workload.sequences}, wanted 1 or more")
