"""A plan for a person: where everything lives, what a token moves, how long it takes, each figure with its formula."""

from collections.abc import Iterator

from shoal.plan.estimate import SHARE, Estimate
from shoal.plan.memory_split import Holding, MemorySplit
from shoal.plan.rates import Rate
from shoal.plan.size import gib, gigabytes
from shoal.plan.traffic import PAGE_NBYTES, Traffic


def lines(estimate: Estimate) -> Iterator[str]:
    """The whole plan, a line at a time."""
    yield from _split_lines(estimate.split)
    yield ""
    yield from _traffic_lines(estimate)
    yield ""
    yield from _rate_lines(estimate)
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
        "rates": {name: vars(rate) for name, rate in vars(rates).items()},
        "share_of_rates": SHARE,
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
    yield f"  expert hit rate {split.expert_hit_rate:.1%}: the share of the routed experts that is in memory, as if"
    yield "  every token picked its experts evenly and independently; a real text repeats some more than others"


def _holding_line(holding: Holding) -> str:
    stored = "-" if holding.stored is None else gib(holding.stored)
    left = "-" if holding.stored is None else gib(holding.stored - holding.in_memory)
    return f"  {holding.name:<16}{stored:>12}{gib(holding.in_memory):>12}{left:>13}   {holding.note}"


def _traffic_lines(estimate: Estimate) -> Iterator[str]:
    step, split = estimate.step, estimate.split
    what = "a decoded token" if step.tokens == 1 else f"a step, which decodes {step.tokens:,} tokens,"
    yield f"What {what} reads"
    parts = " + ".join(f"{kind} {nbytes / 1e9:.2f}" for kind, nbytes in step.from_memory.items())
    yield f"  from memory   {gigabytes(step.memory_nbytes):>10} = {parts}"
    yield f"  from the disk {gigabytes(step.disk_nbytes):>10} = {_disk_formula(step, split)}"


def _disk_formula(step: Traffic, split: MemorySplit) -> str:
    experts = f"{step.experts:,.0f} experts x {split.stored.expert_nbytes:,} B x {1 - split.expert_hit_rate:.3f} missed"
    if not step.engram_pages:
        return experts
    return f"{experts} + {step.engram_pages:,} Engram pages x {PAGE_NBYTES:,} B x {1 - split.row_hit_rate:.3f} missed"


def _rate_lines(estimate: Estimate) -> Iterator[str]:
    rates = estimate.rates
    yield "Rates"
    yield f"  memory        {rates.memory.per_second / 1e9:>10.1f} GB/s     {_origin(rates.memory)}"
    yield f"  disk          {rates.disk.per_second / 1e9:>10.1f} GB/s     {_origin(rates.disk)}"
    yield f"  arithmetic    {rates.arithmetic.per_second / 1e9:>10.1f} GFLOP/s  {_origin(rates.arithmetic)}"


def _origin(rate: Rate) -> str:
    return "assumed, not measured" if rate.origin == "assumed" else rate.origin


def _time_lines(estimate: Estimate) -> Iterator[str]:
    rates, step, chunk = estimate.rates, estimate.step, estimate.chunk
    memory, disk = (
        f"({SHARE:.2f} x {rates.memory.per_second / 1e9:.1f})",
        f"{rates.disk.per_second / 1e9:.1f}",
    )
    yield "Expected speed"
    name, many = ("seconds a token", "") if step.tokens == 1 else ("seconds a step", " of all sequences")
    figures = f"{step.memory_nbytes / 1e9:.2f} / {memory} + {step.disk_nbytes / 1e9:.2f} / {disk}"
    yield f"  {name:<16}{estimate.step_seconds:>9.3f} = {figures}"
    yield f"  tokens a second {estimate.tokens_per_second:>9.2f}{many}"
    arithmetic = f"{estimate.chunk_operations / 1e9:,.0f} / ({SHARE:.2f} x {rates.arithmetic.per_second / 1e9:.1f})"
    reads = f"{chunk.memory_nbytes / 1e9:.2f} / {memory}"
    yield f"  prompt tokens   {estimate.prefill_tokens_per_second:>9.2f} a second = {chunk.tokens:,} / (max({arithmetic},"
    yield f"  {'':<25} {reads}) + {chunk.disk_nbytes / 1e9:.2f} / {disk})"
    yield f"  {SHARE:.2f} is the share of the memory and arithmetic rates that native kernels are built to reach; where"
    yield "  `shoal doctor` finds none for this processor, expect much less. Disk times are added, since a layer's"
    yield "  experts are known only when its router has run. 2 operations a parameter, in all layers."
