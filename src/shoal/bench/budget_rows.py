"""Rows of `decode_budget`: each budget's warm tokens, and the cold ones before them, beside their bound.

The bound of a token is max(compute, bytes missed / disk rate), the disk's rate being that of the probe just before it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.bench.budget import COLD_TOKENS, TOKEN, BudgetRun
from shoal.bench.result import Result
from shoal.bench.rounds import Kept, Round
from shoal.bench.stores import HITS, MISSED, MISSES, STALLED
from shoal.plan.size import gib

NAME = "decode_budget"
NOISE = 1.05
"""More memory counts as slower from here on."""


class Slower(NamedTuple):
    """Memory in bytes that decoded slower than the smaller `than`."""

    memory: int
    than: int


def budget_rows(runs: Sequence[BudgetRun]) -> list[Result]:
    """Two rows for each budget, in the order given."""
    slower = slower_with_more(runs)
    return [row for run in runs for row in (_row(run, run.warm, slower), _row(run, run.cold, slower))]


def slower_with_more(runs: Sequence[BudgetRun]) -> list[Slower]:
    """The pairs of budgets of which the larger one took over 5 % longer for a warm token."""
    ascending = sorted(runs, key=_memory)
    return [
        Slower(_memory(large), _memory(small))
        for i, small in enumerate(ascending)
        for large in ascending[i + 1 :]
        if large.warm.seconds(TOKEN) > NOISE * small.warm.seconds(TOKEN)
    ]


def bound_of(run: BudgetRun) -> Callable[[Round], float]:
    """Seconds that a token must take at least."""
    return lambda each: max(run.compute.seconds, each.counts[MISSED] / each.probe_rate)


def _row(run: BudgetRun, kept: Kept, slower: Sequence[Slower]) -> Result:
    seconds, bound = kept.seconds(TOKEN), bound_of(run)
    hits, misses = kept.count(HITS), kept.count(MISSES)
    figures = {
        "memory_nbytes": _memory(run),
        "tokens": "warm" if kept is run.warm else f"the first {COLD_TOKENS}",
        "hit_rate": hits / (hits + misses),
        "missed_nbytes": kept.count(MISSED),
        "stall_seconds": kept.count(STALLED),
        "bound_seconds": kept.median(bound),
        "added_seconds": kept.median(lambda each: run.compute.seconds + each.counts[MISSED] / each.probe_rate),
        "compute_seconds": run.compute.seconds,
        "compute_is": run.compute.origin,
        "disk_gb_per_second": kept.probe_rate / 1e9,
        "slots": run.slots,
        "num_experts": run.split.stored.num_experts,
        "was_full": run.warm_is_full,
        "peak_nbytes": _peak(run),
        "peak_anonymous_nbytes": run.peak.largest.anonymous,
        "peak_file_nbytes": run.peak.largest.of_files,
        "loading_peak_nbytes": run.loading.nbytes,
        "peak_share": _peak(run) / _memory(run),
        "slower_than": [each.than for each in slower if each.memory == _memory(run)],
    }
    return Result(
        name=NAME if kept is run.warm else f"{NAME}: cold",
        seconds=seconds,
        nbytes=round(kept.count(MISSED)),
        ratio=kept.median(lambda each: each.jobs[TOKEN].seconds / bound(each)),
        value=1 / seconds,
        unit="tokens a second",
        rounds=len(kept.rounds),
        dropped=kept.dropped,
        contended=kept.contended or run.compute.contended,
        more=figures,
        note=_note(run, kept, figures),
    )


def _note(run: BudgetRun, kept: Kept, figures: dict[str, object]) -> str:
    parts = [
        gib(_memory(run)),
        f"{figures['hit_rate']:.0%} hit",
        f"waited {kept.count(STALLED):.3f} s",
        f"bound {figures['bound_seconds']:.3f} s (compute {run.compute.seconds:.3f}: {run.compute.origin})",
        f"peak {figures['peak_share']:.3f} of the memory",
    ]
    if kept is run.warm and not run.warm_is_full:
        parts.append("the store was not full yet")
    if than := figures["slower_than"]:
        assert isinstance(than, list)
        parts.append(f"SLOWER than with {', '.join(map(gib, than))}")
    return ", ".join(parts)


def _memory(run: BudgetRun) -> int:
    return run.split.workload.memory


def _peak(run: BudgetRun) -> int:
    """Loading is part of the run."""
    return max(run.peak.nbytes, run.loading.nbytes)
