"""What a run may take of the memory, class by class, settled before anything is loaded.

What must be there comes first, then experts, then Engram rows: a GiB of experts saves some 8,000 times the bytes from
the disk. Rows get a little of what experts leave nothing of, since a text repeats its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from shoal.checkpoint.inventory import ROUTED
from shoal.config.schema import ModelConfig
from shoal.errors import OptionError
from shoal.plan.kv_cache import KVCache
from shoal.plan.memory_split import Term, refuse_too_little
from shoal.plan.size import GIB, MIB, gib
from shoal.plan.stored import DENSE, ENGRAM_TABLES, Stored

PROGRAM_NBYTES = GIB // 2
"""Assumed: interpreter and libraries."""
MARGIN = 0.05
"""Of what is free, left to other programs where no budget is given."""
# Of what the dense weights leave: a chunk of a prompt, the KV cache, Engram rows while experts do not all fit.
CHUNK_SHARE, KV_SHARE, ROW_SHARE = 3, 32, 64
MOST_ROW_NBYTES = 256 * MIB
SHORTEST_CONTEXT = 4096


@dataclass(frozen=True)
class Wishes:
    """What a person gave, in bytes: `memory` for everything, the others for a class; None leaves it to the planner.

    `chunk` tokens of a prompt are computed at once; `resident_engram` keeps all Engram rows.
    """

    memory: int | None = None
    experts: int | None = None
    engram: int | None = None
    kv: int | None = None
    chunk: int | None = None
    resident_engram: bool = False


@dataclass(frozen=True)
class Activations:
    """Bytes of one token of a chunk, and the chunks to choose from, the largest first."""

    token_nbytes: int
    chunks: tuple[int, ...]


@dataclass(frozen=True)
class Budget:
    """Bytes by class. `experts` None: all fit, and the page cache holds them; `engram` None: all rows are resident.

    `context` tokens are what `kv` holds of one sequence; `chunk` tokens of a prompt are computed at once.
    """

    memory: int
    dense: int
    program: int
    activations: int
    kv: int
    experts: int | None
    engram: int | None
    context: int
    chunk: int

    def lines(self) -> Iterator[str]:
        """For a person: what is held beside experts and Engram rows, whose stores speak for themselves."""
        yield f"memory: {gib(self.memory)} for everything"
        yield f"  dense weights {gib(self.dense)}, program {gib(self.program)} (assumed)"
        yield f"  KV cache {gib(self.kv)}, enough for {self.context:,} tokens"
        yield f"  activations {gib(self.activations)}, prompts are read {self.chunk:,} tokens at once"


def plan_budget(stored: Stored, wishes: Wishes, usable: int, activations: Activations) -> Budget:
    """The budget of a run on a machine with `usable` bytes free.

    Raises OptionError when what was given cannot hold what must be in memory, naming the smallest that can. Where no
    total was given a machine that is too small is tried all the same.
    """
    memory = wishes.memory if wishes.memory is not None else int(usable * (1 - MARGIN))
    rest = max(0, memory - stored.dense - PROGRAM_NBYTES)
    chunk = wishes.chunk or _chunk(activations, rest // CHUNK_SHARE)
    kv = wishes.kv if wishes.kv is not None else _kv_nbytes(stored.config, rest // KV_SHARE)
    context = context_within(stored.config, kv)
    if not context:
        least = KVCache(stored.config, 1).sequence_nbytes
        raise OptionError(f"`--kv-memory` of {kv:,} bytes holds no token, wanted at least {least:,}")
    fixed = _fixed(stored, wishes, chunk * activations.token_nbytes, kv)
    if wishes.memory is not None:
        refuse_too_little(wishes.memory, [*fixed, _least_experts(stored, wishes)])
    rest = max(0, memory - sum(term.nbytes for term in fixed))
    experts = _experts(stored, wishes, rest)
    return Budget(
        memory,
        stored.dense,
        PROGRAM_NBYTES,
        chunk * activations.token_nbytes,
        kv,
        experts,
        _rows(stored, wishes, rest, experts),
        context,
        chunk,
    )


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


def _chunk(activations: Activations, nbytes: int) -> int:
    within = (chunk for chunk in activations.chunks if chunk * activations.token_nbytes <= nbytes)
    return next(within, activations.chunks[-1])


def _kv_nbytes(config: ModelConfig, nbytes: int) -> int:
    """The whole context's, or what holds as many tokens as `nbytes` do, but never fewer than a short text's."""
    tokens = max(context_within(config, nbytes), min(SHORTEST_CONTEXT, config.context_length))
    return KVCache(config, tokens).sequence_nbytes


def _fixed(stored: Stored, wishes: Wishes, activations: int, kv: int) -> list[Term]:
    """What does not depend on what is left."""
    shorter = "a shorter context (`--kv-memory`) takes less"
    terms = [
        Term(f"the dense weights ({', '.join(DENSE)})", stored.dense, "no option makes these smaller"),
        Term("the program (assumed)", PROGRAM_NBYTES, None),
        Term("the activations of a chunk of a prompt", activations, "`--prefill-chunk` makes these smaller"),
        Term("the KV cache", kv, shorter),
    ]
    if wishes.resident_engram:
        tables = stored.nbytes.get(ENGRAM_TABLES, 0)
        terms.append(Term("the Engram tables", tables, "without `--resident-engram` they stay in the shards"))
    elif wishes.engram is not None:
        terms.append(Term("the Engram rows", wishes.engram, "`--engram-memory` makes this smaller"))
    return terms


def _least_experts(stored: Stored, wishes: Wishes) -> Term:
    if wishes.experts is not None:
        return Term("the routed experts", wishes.experts, "`--expert-memory` makes this smaller")
    active = stored.config.n_activated_experts
    return Term(f"{active} routed experts, as many as a layer runs at once,", active * stored.expert_nbytes, None)


def _experts(stored: Stored, wishes: Wishes, rest: int) -> int | None:
    """None: all of them fit."""
    if wishes.experts is not None:
        return wishes.experts
    if stored.nbytes[ROUTED] <= rest:
        return None
    rows = 0 if wishes.resident_engram or wishes.engram is not None else _little(rest)
    return max(rest - rows, stored.config.n_activated_experts * stored.expert_nbytes)


def _rows(stored: Stored, wishes: Wishes, rest: int, experts: int | None) -> int | None:
    if wishes.resident_engram:
        return None
    if wishes.engram is not None:
        return wishes.engram
    left = rest - stored.nbytes[ROUTED] if experts is None else 0
    return min(stored.nbytes.get(ENGRAM_TABLES, 0), max(left, _little(rest)))


def _little(rest: int) -> int:
    return min(MOST_ROW_NBYTES, rest // ROW_SHARE)
