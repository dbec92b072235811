"""How fast this machine multiplies in float32: torch's matrix product, the best of a few. The only torch in `plan`."""

import importlib.util
import time

SIZE, RUNS = 1024, 25


def measure_arithmetic() -> float | None:
    """Operations a second of all of torch's threads, in about a second; None where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    left, right = torch.ones(SIZE, SIZE), torch.ones(SIZE, SIZE)
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        torch.mm(left, right)
        seconds.append(time.perf_counter() - started)
    return 2 * SIZE**3 / min(seconds)
