"""One memory budget, split: what must be there first, then as many experts, then as many Engram rows, as fit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shoal.checkpoint.inventory import ROUTED, VISION
from shoal.errors import OptionError
from shoal.plan.kv_cache import KVCache
from shoal.plan.size import GIB, MIB, gib
from shoal.plan.stored import DENSE, DRAFT_LAYERS, ENGRAM_TABLES, Stored

WORKING_NBYTES = GIB
"""Assumed: interpreter, libraries, and the activations of a chunk of a prompt."""


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
    """Where everything lives. Experts and rows are counted whole, so a little of the budget may be left."""

    stored: Stored
    workload: Workload
    cache: KVCache
    cached_experts: int
    cached_rows: int

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
        stored, workload, cache = self.stored, self.workload, self.cache
        kv = f"{cache.token_nbytes:,.0f} B a token + {cache.fixed_nbytes / 1e6:.1f} MB a sequence"
        experts = f"{self.cached_experts:,} of {stored.num_experts:,} experts of {stored.expert_nbytes:,} B"
        rows = f"{self.cached_rows:,} of {stored.num_engram_rows:,} rows of {stored.engram_row_nbytes} B"
        yield Holding("dense weights", stored.dense, stored.dense, "always in memory, packed as stored")
        yield Holding("program", None, WORKING_NBYTES, "assumed: libraries and activations")
        yield Holding("KV cache", None, workload.sequences * cache.sequence_nbytes, kv)
        yield self._left(ROUTED, self.cached_experts * stored.expert_nbytes, experts)
        yield self._left(ENGRAM_TABLES, self.cached_rows * stored.engram_row_nbytes, rows)
        yield self._left(DRAFT_LAYERS, 0, "loaded only when used")
        yield self._left(VISION, 0, "loaded only when used")

    def _left(self, kind: str, in_memory: int, note: str) -> Holding:
        nbytes = self.stored.nbytes.get(kind, 0)
        return Holding(kind, nbytes, in_memory, note if nbytes else "this model has none")


def split_memory(stored: Stored, workload: Workload) -> MemorySplit:
    """The split of a budget. `OptionError` names the term that does not fit and the smallest budget that would do.

    Experts come before Engram rows: a GiB of them saves some 8,000 times the bytes from the disk.
    """
    _check(stored, workload)
    cache = KVCache(stored.config, workload.context)
    refuse_too_little(workload.memory, _terms(stored, workload, cache))
    rest = workload.memory - stored.dense - WORKING_NBYTES - workload.sequences * cache.sequence_nbytes
    experts = min(stored.num_experts, rest // stored.expert_nbytes)
    rest -= experts * stored.expert_nbytes
    whole = experts == stored.num_experts and stored.num_engram_rows
    rows = min(stored.num_engram_rows, rest // stored.engram_row_nbytes) if whole else 0
    return MemorySplit(stored, workload, cache, experts, rows)


def smallest_memory(stored: Stored, workload: Workload) -> int:
    """The smallest budget in bytes that serves the workload, whatever its own budget is."""
    return sum(term.nbytes for term in _terms(stored, workload, KVCache(stored.config, workload.context)))


class Term(NamedTuple):
    """Something that must be in memory, and what a user can do about its size."""

    name: str
    nbytes: int
    hint: str | None


def _terms(stored: Stored, workload: Workload, cache: KVCache) -> list[Term]:
    """All that must be in memory at once, in the order in which it is counted."""
    config, sequences = stored.config, workload.sequences
    used_at_once = min(config.n_routed_experts, config.n_activated_experts * sequences)
    fewer = "fewer sequences (`--sequences`) or a shorter context (`--context`) take less"
    tokens = f"{sequences:,} x {workload.context:,} tokens"
    return [
        Term(f"the dense weights ({', '.join(DENSE)})", stored.dense, "no option makes these smaller"),
        Term("the program and its activations (assumed)", WORKING_NBYTES, None),
        Term(f"the KV caches of {tokens}", sequences * cache.sequence_nbytes, fewer),
        Term(
            f"{used_at_once} routed experts, as many as a layer runs at once,",
            used_at_once * stored.expert_nbytes,
            None,
        ),
    ]


def refuse_too_little(memory: int, terms: Sequence[Term]) -> None:
    """OptionError where the terms, in their order, do not fit into `memory`: which one, and what would do."""
    left = memory
    for term in terms:
        if term.nbytes > left:
            found = f"{term.name} take {gib(term.nbytes)} where {gib(left)} is left"
            wanted = f"the smallest budget that would do is {_rounded_up(sum(term.nbytes for term in terms))}"
            raise OptionError(f"this does not fit into {gib(memory)}: {found}; {wanted}", hint=term.hint)
        left -= term.nbytes


def _rounded_up(nbytes: int) -> str:
    """A size such that it can be given back as a budget."""
    unit, name = (GIB, "GiB") if nbytes >= GIB else (MIB, "MiB")
    return f"{-(-nbytes * 100 // unit) / 100:.2f} {name}"


def _check(stored: Stored, workload: Workload) -> None:
    longest = stored.config.context_length
    if not 1 <= workload.context <= longest:
        raise OptionError(f"the context is {workload.context:,} tokens, wanted 1 to the model's {longest:,}")
    if workload.sequences < 1:
        raise OptionError(f"the number of sequences is {workload.sequences}, wanted 1 or more")
