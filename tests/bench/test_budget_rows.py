"""What a budget's tokens come to, with numbers that can be checked by hand."""

from pathlib import Path

import pytest

from miniature import MINI
from shoal.bench.budget import TOKEN, BudgetRun, Compute
from shoal.bench.budget_rows import Slower, budget_rows, slower_with_more
from shoal.bench.resident import ResidentPeak
from shoal.bench.rounds import Kept, Round, of_disk
from shoal.bench.stores import HITS, MISSED, MISSES, STALLED
from shoal.config.layouts import load_config
from shoal.plan.memory_split import Workload, split_memory
from shoal.plan.size import GIB
from shoal.plan.stored import count_stored

STORED = count_stored(load_config(MINI))


def a_token(seconds: float, missed: float, rate: float = 1e9, hits: int = 6, misses: int = 2) -> Round:
    counts = {MISSED: missed, STALLED: 0.25 * seconds, HITS: hits, MISSES: misses}
    return of_disk(rate, seconds, TOKEN, counts)


def a_peak(directory: Path, nbytes: int) -> ResidentPeak:
    directory.mkdir(exist_ok=True)
    (directory / "status").write_text(f"VmRSS: {nbytes >> 10} kB\nRssAnon: {nbytes >> 11} kB\n")
    with ResidentPeak(directory, interval=60) as peak:
        pass
    return peak


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return tmp_path


def a_run(proc: Path, memory: int, warm: list[Round], cold: list[Round] | None = None, full: bool = True) -> BudgetRun:
    return BudgetRun(
        split=split_memory(STORED, Workload(memory, 16, 1)),
        slots=40,
        compute=Compute(0.5, "all experts in memory", False),
        cold=Kept(cold or [a_token(4.0, 3e9, hits=0, misses=8)], 0, False),
        warm=Kept(warm, 0, False),
        warm_is_full=full,
        peak=a_peak(proc / "peak", memory // 2),
        loading=a_peak(proc / "loading", memory // 4),
    )


def test_a_budget_is_a_row_for_warm_tokens_and_one_for_cold_ones(proc: Path) -> None:
    warm, cold = budget_rows([a_run(proc, 2 * GIB, [a_token(1.2, 1e9)])])
    assert (warm.name, cold.name) == ("decode_budget", "decode_budget: cold")
    assert (warm.seconds, warm.nbytes, warm.value, warm.unit) == (1.2, 10**9, 1 / 1.2, "tokens a second")
    assert (cold.seconds, cold.nbytes, cold.more["hit_rate"]) == (4.0, 3 * 10**9, 0)
    content = warm.as_dict()
    assert content["memory_nbytes"] == 2 * GIB and content["hit_rate"] == 0.75 and content["stall_seconds"] == 0.3
    assert content["peak_share"] == 0.5 and content["peak_nbytes"] == GIB and content["slower_than"] == []
    assert "2.00 GiB, 75% hit, waited 0.300 s, bound 1.000 s" in warm.note


@pytest.mark.parametrize(("missed", "rate", "bound"), [(2e9, 1e9, 2.0), (2e9, 8e9, 0.5), (0, 1e9, 0.5)])
def test_the_bound_is_computing_or_reading_whichever_takes_longer(
    proc: Path, missed: float, rate: float, bound: float
) -> None:
    warm, _ = budget_rows([a_run(proc, 2 * GIB, [a_token(3.0, missed, rate)])])
    assert warm.more["bound_seconds"] == bound
    assert warm.ratio == 3.0 / bound
    assert warm.more["added_seconds"] == 0.5 + missed / rate


def test_the_ratio_is_taken_token_by_token(proc: Path) -> None:
    tokens = [a_token(1.0, 1e9), a_token(2.0, 2e9), a_token(9.0, 3e9)]
    warm, _ = budget_rows([a_run(proc, 2 * GIB, tokens)])
    assert warm.ratio == 1.0 and warm.seconds == 2.0


def test_loading_counts_for_the_peak(proc: Path) -> None:
    run = a_run(proc, 2 * GIB, [a_token(1.0, 0)])
    assert budget_rows([run])[0].more["loading_peak_nbytes"] == GIB // 2
    swapped = BudgetRun(**{**vars(run), "peak": run.loading, "loading": run.peak})
    assert budget_rows([swapped])[0].more["peak_share"] == 0.5


def test_more_memory_that_is_slower_beyond_noise_is_said(proc: Path) -> None:
    runs = [
        a_run(proc, memory * GIB, [a_token(seconds, 0)])
        for memory, seconds in ((4, 1.0), (2, 1.04), (3, 0.9), (5, 0.94))
    ]
    # 1.0 against 0.9 is beyond; against 1.04 it is faster; 0.94 against 0.9 is noise.
    assert slower_with_more(runs) == [Slower(4 * GIB, 3 * GIB)]
    rows = budget_rows(runs)
    assert rows[0].more["slower_than"] == [3 * GIB] and "SLOWER than with 3.00 GiB" in rows[0].note
    assert all("SLOWER" not in row.note for row in rows[2::2])


def test_a_store_that_had_not_filled_is_said(proc: Path) -> None:
    warm, cold = budget_rows([a_run(proc, 2 * GIB, [a_token(1.0, 0)], full=False)])
    assert "was not full yet" in warm.note and "was not full yet" not in cold.note
