"""The Q8 quantiser of every native build, beside a copy of the same bytes, in one run.

Rounds of probe and kernels are interleaved; a round whose probe is below 0.8 of the best is dropped and counted.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from shoal.ops.kernels import Kernels, available_isas
from shoal.ops.quantize import quantize_q8_torch

ROWS, COLUMNS, ROUNDS = 2048, 5120, 15
CONTENDED = 0.8


def seconds_of(job: Callable[[], object]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def measure(jobs: dict[str, Callable[[], object]]) -> tuple[dict[str, float], int]:
    """Median seconds of each job over the rounds that were not disturbed, and how many were."""
    rounds = [{name: seconds_of(job) for name, job in jobs.items()} for _ in range(ROUNDS)]
    best = min(times["probe"] for times in rounds)
    kept = [times for times in rounds if best / times["probe"] >= CONTENDED]
    return {name: statistics.median(times[name] for times in kept) for name in jobs}, ROUNDS - len(kept)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", type=Path)
    arguments = options.parse_args()
    torch.set_num_threads(1)
    x = torch.randn((ROWS, COLUMNS), generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    copy = torch.empty_like(x)
    jobs: dict[str, Callable[[], object]] = {"probe": lambda: copy.copy_(x), "torch": lambda: quantize_q8_torch(x)}
    jobs |= {isa: partial(Kernels(isa).quantize_q8, x) for isa in available_isas()}
    medians, dropped = measure(jobs)
    print(f"Q8 of {ROWS} x {COLUMNS} bf16, one thread; {dropped} of {ROUNDS} rounds dropped")
    results = []
    for name, seconds in medians.items():
        ratio = medians["probe"] / seconds
        print(f"{name:>10}  {seconds / ROWS * 1e6:8.2f} us a row  {ratio:6.3f} of a copy")
        results.append({"name": f"quantize_q8_{name}", "seconds": seconds, "bytes": x.nbytes, "ratio": ratio})
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": platform.processor(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
