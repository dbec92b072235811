"""A plan for a person: where everything lives, what a token moves, how long it takes, each figure with its formula."""

from collections.abc import Iterator

from shoal.plan.estimate import Estimate
from shoal.plan.memory_split import Holding, MemorySplit
from shoal.plan.rates import SHARE, Rate, Rates
from shoal.plan.size import gib, giga
from shoal.plan.traffic import PAGE_NBYTES, Traffic


def lines(estimate: Estimate) -> Iterator[str]:
    """The whole plan, a line at a time."""
    yield from _split_lines(estimate.split)
    yield ""
    yield from _traffic_lines(estimate.step)
    yield ""
    yield from _rate_lines(estimate.rates)
    yield ""
    yield from _time_lines(estimate)


def as_json(estimate: Estimate) -> dict[str, object]:
    """The same for a program: bytes, seconds, shares."""
    split, rates = estimate.split, estimate.rates
    workload, step = split.workload, estimate.step
    return {
        "memory_nbytes": workload.memory,
        "context": workload.context,
        "sequences": workload.sequences,
        "checkpoint": {"nbytes": split.stored.total, "tensors": split.stored.num_tensors},
        "holdings": [vars(holding) for holding in split.holdings()],
        "used_nbytes": split.used,
        "expert_hit_rate": split.expert_hit_rate,
        "engram_row_hit_rate": split.row_hit_rate,
        "rates": {name: vars(getattr(rates, name)) for name in ("memory", "disk", "arithmetic")},
        "share_of_rates": estimate.rates.share,
        "step": {
            "memory_nbytes": step.from_memory,
            "disk_nbytes": {"routed experts": step.experts_from_disk, "Engram rows": step.engram_from_disk},
            "seconds": estimate.step_seconds,
            "tokens_per_second": estimate.tokens_per_second,
        },
        "prefill": {
            "chunk_tokens": estimate.chunk.tokens,
            "chunk_seconds": estimate.chunk_seconds,
            "tokens_per_second": estimate.prefill_tokens_per_second,
        },
    }


def _split_lines(split: MemorySplit) -> Iterator[str]:
    workload, stored = split.workload, split.stored
    each = f"{workload.sequences:,} sequence{'s' * (workload.sequences > 1)} of {workload.context:,} tokens"
    yield f"Where it lives, with {gib(workload.memory)} of memory and {each}"
    yield f"  {'':<16}{'stored':>12}{'in memory':>12}{'on the disk':>13}"
    yield from (_holding_line(holding) for holding in split.holdings())
    left = stored.total - sum(holding.in_memory for holding in split.holdings() if holding.stored is not None)
    used = f"{stored.num_tensors:,} tensors; {gib(workload.memory - split.used)} of the memory is unused"
    yield f"  {'total':<16}{gib(stored.total):>12}{gib(split.used):>12}{gib(left):>13}   {used}"
    yield f"  expected expert hit rate {split.expert_hit_rate:.1%}: the share of the routed experts that is in memory,"
    yield "  which is right if tokens pick experts evenly and independently; text that repeats its picks does better"


def _holding_line(holding: Holding) -> str:
    stored = "-" if holding.stored is None else gib(holding.stored)
    left = "-" if holding.stored is None else gib(holding.stored - holding.in_memory)
    return f"  {holding.name:<16}{stored:>12}{gib(holding.in_memory):>12}{left:>13}   {holding.note}"


def _traffic_lines(step: Traffic) -> Iterator[str]:
    what = "a decoded token" if step.tokens == 1 else f"a step, which decodes {step.tokens:,} tokens,"
    yield f"What {what} reads"
    parts = " + ".join(f"{kind} {giga(nbytes)}" for kind, nbytes in step.from_memory.items())
    yield f"  from memory   {giga(step.memory_nbytes):>8} GB = {parts}"
    yield f"  from the disk {giga(step.disk_nbytes):>8} GB = {_disk_formula(step)}"


def _disk_formula(step: Traffic) -> str:
    split = step.split
    missed = f"{1 - split.expert_hit_rate:.3f} missed"
    experts = f"{step.experts:,.0f} experts x {split.stored.expert_nbytes:,} B x {missed}"
    if not step.engram_pages:
        return experts
    pages = f"{step.engram_pages:,} Engram pages x {PAGE_NBYTES:,} B x {1 - split.row_hit_rate:.3f} missed"
    return f"{experts} + {pages}"


def _rate_lines(rates: Rates) -> Iterator[str]:
    yield "Rates"
    yield f"  memory        {giga(rates.memory.per_second):>8} GB/s     {_origin(rates.memory)}"
    yield f"  disk          {giga(rates.disk.per_second):>8} GB/s     {_origin(rates.disk)}"
    yield f"  arithmetic    {giga(rates.arithmetic.per_second):>8} GFLOP/s  {_origin(rates.arithmetic)}"


def _origin(rate: Rate) -> str:
    return "assumed, not measured: an ordinary desktop" if rate.origin == "assumed" else rate.origin


def _time_lines(estimate: Estimate) -> Iterator[str]:
    step, chunk, rates = estimate.step, estimate.chunk, estimate.rates
    yield "Expected speed"
    name, whose = ("a token", "") if step.tokens == 1 else ("a step", " of all sequences together")
    yield f"  {name:<14}{estimate.step_seconds:>8.3f} s = {_from_memory(step, rates)} + {_from_disk(step, rates)}"
    yield f"  {'':<14}{estimate.tokens_per_second:>8.2f} tokens a second{whose}"
    arithmetic = f"{giga(estimate.chunk_operations)} / ({SHARE:.2f} x {giga(rates.arithmetic.per_second)})"
    most = f"max({arithmetic}, {_from_memory(chunk, rates)})"
    yield f"  {f'{chunk.tokens:,} prompt':<14}{estimate.chunk_seconds:>8.1f} s = {most} + {_from_disk(chunk, rates)}"
    yield f"  {'tokens':<14}{estimate.prefill_tokens_per_second:>8.2f} tokens a second"
    shares = f"{rates.share:.2f} of the memory's rate and {SHARE:.2f} of the arithmetic's"
    yield f"  {shares} are what native kernels reach {_with(rates)} AVX-512; a"
    yield from _EXPLANATION


def _with(rates: Rates) -> str:
    return "with" if rates.share == SHARE else "without"


def _from_memory(traffic: Traffic, rates: Rates) -> str:
    return f"{giga(traffic.memory_nbytes)} / ({rates.share:.2f} x {giga(rates.memory.per_second)})"


def _from_disk(traffic: Traffic, rates: Rates) -> str:
    return f"{giga(traffic.disk_nbytes)} / {giga(rates.disk.per_second)}"


_EXPLANATION = (
    "  processor for which `shoal doctor` finds none is far slower. Disk time is added, not hidden: which experts a",
    "  layer needs is known only once its router has run. Arithmetic is 2 operations a parameter that acts on a token.",
)
