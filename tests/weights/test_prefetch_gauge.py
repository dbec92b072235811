import random

import pytest

from shoal.weights.prefetch_gauge import PAUSE, WINDOW, PrefetchGauge


def share_read_ahead(gauge: PrefetchGauge, guesses: int, begun: int, precision: float) -> float:
    """Of so many guesses, how many were wanted, when each begins so many reads of this precision."""
    rng, wanted = random.Random(0), 0
    for _ in range(guesses):
        if gauge.wants_guess():
            wanted += 1
            gauge.judge(begun, sum(rng.random() < precision for _ in range(begun)))
    return wanted / guesses


@pytest.mark.parametrize(("begun", "precision"), [(1, 0.7), (3, 0.6), (1, 1.0)])
def test_it_stays_on_while_most_reads_are_of_use(begun: int, precision: float) -> None:
    assert share_read_ahead(PrefetchGauge(), 4 * WINDOW, begun, precision) == 1


@pytest.mark.parametrize(("begun", "precision"), [(1, 0.4), (3, 0.0), (0, 1.0)])
def test_it_is_on_trial_now_and_then_where_reads_are_for_nothing_or_none_begins(begun: int, precision: float) -> None:
    share = share_read_ahead(PrefetchGauge(), 2 * (PAUSE + WINDOW), begun, precision)
    assert share == WINDOW / (PAUSE + WINDOW)


def test_it_is_off_soon_after_guesses_became_bad_and_on_after_they_became_good() -> None:
    gauge = PrefetchGauge()
    share_read_ahead(gauge, 2 * WINDOW, 2, 0.9)
    assert share_read_ahead(gauge, WINDOW, 2, 0.0) < 1
    assert share_read_ahead(gauge, PAUSE, 2, 0.9) < 0.5
    assert share_read_ahead(gauge, WINDOW, 2, 0.9) == 1
