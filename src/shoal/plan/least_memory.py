"""The least a run can do with: what was given, a small chunk of a prompt, a short text, the experts of one token."""

from dataclasses import dataclass

from shoal.config.schema import ModelConfig
from shoal.plan.activations import Activations
from shoal.plan.kv_cache import KVCache
from shoal.plan.size import GIB
from shoal.plan.stored import DENSE, ENGRAM_TABLES, Stored
from shoal.plan.term import Term

PROGRAM_NBYTES = GIB // 2
"""Assumed: interpreter and libraries."""
SHORTEST_CONTEXT = 4096


@dataclass(frozen=True)
class Wishes:
    """What a person gave, in bytes: `memory` for everything, the others for a class; None leaves it to the planner.

    `chunk` tokens of a prompt are computed at once; `resident_engram` keeps all Engram rows; `sequences` run together.
    """

    memory: int | None = None
    experts: int | None = None
    engram: int | None = None
    kv: int | None = None
    chunk: int | None = None
    resident_engram: bool = False
    sequences: int = 1


@dataclass(frozen=True)
class Parts:
    """Bytes of what must be in memory at once."""

    dense: int
    activations: int
    kv: int
    rows: int
    experts: int
    wishes: Wishes

    @property
    def nbytes(self) -> int:
        """All of it."""
        return sum(term.nbytes for term in self.terms())

    def terms(self) -> list[Term]:
        """In the order in which it is counted."""
        shorter = "a shorter context or fewer sequences take less (`--kv-memory`; of a plan `--context`, `--sequences`)"
        smaller = "`--engram-memory` makes this smaller"
        if self.wishes.resident_engram:
            smaller = "without `--resident-engram` they stay in the shards"
        return [
            Term(f"the dense weights ({', '.join(DENSE)})", self.dense, "no option makes these smaller"),
            Term("the program (assumed)", PROGRAM_NBYTES, None),
            Term("the activations of a chunk of a prompt", self.activations, "`--prefill-chunk` makes these smaller"),
            Term("the KV cache", self.kv, shorter),
            Term("the Engram rows", self.rows, smaller),
            Term("the routed experts", self.experts, "`--expert-memory` makes this smaller"),
        ]


def least_parts(stored: Stored, wishes: Wishes, activations: Activations) -> Parts:
    """What was given, and of everything else the least: a small chunk, a short text, the experts of one token."""
    tables = stored.nbytes.get(ENGRAM_TABLES, 0)
    return Parts(
        stored.dense,
        (wishes.chunk or activations.chunks[-1]) * activations.token_nbytes,
        kv_nbytes(stored.config, 0, wishes.sequences) if wishes.kv is None else wishes.kv,
        tables if wishes.resident_engram else wishes.engram or 0,
        least_experts(stored) if wishes.experts is None else wishes.experts,
        wishes,
    )


def least_experts(stored: Stored) -> int:
    """As many as a layer runs at once."""
    return stored.config.n_activated_experts * stored.expert_nbytes


def kv_nbytes(config: ModelConfig, nbytes: int, sequences: int = 1) -> int:
    """What `sequences` of the whole context take, or at most `nbytes`, but never less than a short text of each."""
    short = KVCache(config, min(SHORTEST_CONTEXT, config.context_length))
    rings = (sequences - 1) * short.fixed_nbytes
    whole = sequences * KVCache(config, config.context_length).sequence_nbytes
    return min(whole, max(nbytes, rings + short.sequence_nbytes))


def context_within(config: ModelConfig, nbytes: int) -> int:
    """The most tokens of one sequence that `nbytes` hold, at most the model's context; 0 where they hold none."""
    fits, too_long = 0, config.context_length + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if KVCache(config, middle).sequence_nbytes <= nbytes:
            fits = middle
        else:
            too_long = middle
    return fits
