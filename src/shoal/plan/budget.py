"""What a run may take of the memory, class by class, settled before anything is loaded.

What must be there comes first, then experts, then Engram rows: a GiB of experts saves some 8,000 times the bytes from
the disk. Rows get a little of what experts leave nothing of, since a text repeats its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from shoal.checkpoint.inventory import ROUTED
from shoal.config.schema import ModelConfig
from shoal.errors import OptionError
from shoal.plan.activations import Activations
from shoal.plan.kv_cache import KVCache
from shoal.plan.least_memory import (
    PROGRAM_NBYTES,
    Wishes,
    context_within,
    kv_nbytes,
    least_experts,
    least_parts,
)
from shoal.plan.size import MIB, gib
from shoal.plan.stored import ENGRAM_TABLES, Stored
from shoal.plan.term import refuse_too_little

MARGIN = 0.05
"""Of what is free, left to other programs where no budget is given."""
# Of what is spare once everything has its least: a chunk of a prompt, the KV cache, Engram rows while experts do not
# all fit.
CHUNK_SHARE, KV_SHARE, ROW_SHARE = 3, 32, 64
MOST_ROW_NBYTES = 256 * MIB


@dataclass(frozen=True)
class Budget:
    """Bytes by class. `experts` None: all fit, and the page cache holds them; `engram` None: all rows are resident.

    `context` tokens are what `kv` holds of one sequence that is alone; `chunk` tokens of a prompt are computed at once.
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


def free_budget(usable: int) -> int:
    """The budget of a run that is given none, where so many bytes are free."""
    return int(usable * (1 - MARGIN))


def plan_budget(stored: Stored, wishes: Wishes, usable: int, activations: Activations) -> Budget:
    """The budget of a run on a machine with `usable` bytes free.

    Raises OptionError when what was given cannot hold what must be in memory, naming the smallest that can. Where no
    total was given a machine that is too small is tried all the same.
    """
    memory = wishes.memory if wishes.memory is not None else free_budget(usable)
    least = least_parts(stored, wishes, activations)
    if wishes.memory is not None:
        refuse_too_little(wishes.memory, least.terms())
    spare = max(0, memory - least.nbytes)
    chunk = wishes.chunk or _chunk(activations, least.activations + spare // CHUNK_SHARE)
    kv = wishes.kv
    if kv is None:
        kv = kv_nbytes(stored.config, least.kv + spare // KV_SHARE, wishes.sequences)
    used = replace(least, activations=chunk * activations.token_nbytes, kv=kv)
    rest = max(0, memory - used.nbytes + used.experts)
    experts = _experts(stored, wishes, rest)
    rows = _rows(stored, wishes, rest, experts)
    context = _context(stored.config, kv)
    return Budget(memory, stored.dense, PROGRAM_NBYTES, used.activations, kv, experts, rows, context, chunk)


def _context(config: ModelConfig, kv: int) -> int:
    tokens = context_within(config, kv)
    if not tokens:
        least = KVCache(config, 1).sequence_nbytes
        raise OptionError(f"`--kv-memory` of {kv:,} bytes holds no token, wanted at least {least:,}")
    return tokens


def _chunk(activations: Activations, nbytes: int) -> int:
    within = (chunk for chunk in activations.chunks if chunk * activations.token_nbytes <= nbytes)
    return next(within, activations.chunks[-1])


def _experts(stored: Stored, wishes: Wishes, rest: int) -> int | None:
    """None: all of them fit."""
    if wishes.experts is not None:
        return wishes.experts
    rows = 0 if wishes.resident_engram or wishes.engram is not None else _little(stored, rest)
    if stored.nbytes[ROUTED] + rows <= rest:
        return None
    return max(rest - rows, least_experts(stored))


def _rows(stored: Stored, wishes: Wishes, rest: int, experts: int | None) -> int | None:
    if wishes.resident_engram:
        return None
    if wishes.engram is not None:
        return wishes.engram
    if experts is None:
        return min(stored.nbytes.get(ENGRAM_TABLES, 0), rest - stored.nbytes[ROUTED])
    return min(max(0, rest - experts), _little(stored, rest))


def _little(stored: Stored, rest: int) -> int:
    return min(MOST_ROW_NBYTES, rest // ROW_SHARE, stored.nbytes.get(ENGRAM_TABLES, 0))
