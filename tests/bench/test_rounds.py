"""Which rounds count."""

import pytest

from shoal.bench.rounds import Round, Timing, keep, of_disk, timed


def a_round(rate: float, seconds: float = 1.0, share: float = 1.0, probe_share: float = 1.0) -> Round:
    return Round(rate, probe_share, {"job": Timing(seconds, share)})


def test_undisturbed_rounds_all_count() -> None:
    kept = keep([a_round(100, 1), a_round(90, 3), a_round(81, 2)], best_rate=100)
    assert (len(kept.rounds), kept.dropped, kept.contended) == (3, 0, False)
    assert (kept.seconds("job"), kept.probe_rate) == (2, 90)


@pytest.mark.parametrize(
    "disturbed", [a_round(79, 9), a_round(100, 9, share=0.96), a_round(100, 9, probe_share=0.96)], ids=repr
)
def test_a_disturbed_round_is_dropped_and_counted(disturbed: Round) -> None:
    kept = keep([a_round(100, 1), disturbed, a_round(99, 1)], best_rate=100)
    assert (len(kept.rounds), kept.dropped, kept.contended) == (2, 1, False)
    assert kept.seconds("job") == 1


def test_a_job_with_a_serial_part_is_judged_by_its_own_best_share() -> None:
    kept = keep([a_round(100, share=0.60), a_round(100, share=0.59), a_round(100, share=0.50)], best_rate=100)
    assert kept.dropped == 1


def test_when_most_rounds_are_disturbed_the_half_with_the_best_probes_is_kept_and_marked() -> None:
    rounds = [a_round(40, 4), a_round(100, 1), a_round(30, 5), a_round(60, 2), a_round(50, 3)]
    kept = keep(rounds, best_rate=100)
    assert kept.contended
    assert [each.probe_rate for each in kept.rounds] == [100, 60, 50]
    assert kept.dropped == 2


def test_the_best_probe_may_be_of_another_figure() -> None:
    assert keep([a_round(70), a_round(70)], best_rate=100).contended


def test_a_figure_of_rounds_is_their_median() -> None:
    kept = keep([a_round(100, 1), a_round(100, 2), a_round(100, 10)], best_rate=100)
    assert kept.median(lambda each: 1 / each.jobs["job"].seconds) == 0.5


def test_beside_the_disk_only_a_slow_probe_disturbs_and_counts_are_means() -> None:
    rounds = [of_disk(rate, 1.0, "read", {"nbytes": count}) for rate, count in ((100, 4), (79, 100), (90, 7))]
    kept = keep(rounds, best_rate=100)
    assert (len(kept.rounds), kept.dropped) == (2, 1)
    assert kept.count("nbytes") == 5.5


def test_jobs_run_once_each_and_in_order() -> None:
    ran: list[int] = []
    timing = timed([lambda: ran.append(1), lambda: ran.append(2)], threads=2)
    assert ran == [1, 2]
    assert timing.seconds > 0
    assert timing.share >= 0
