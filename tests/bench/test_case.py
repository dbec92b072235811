"""How a case becomes a row."""

from collections.abc import Mapping

import pytest

from shoal.bench.case import Against, Case, Sample, measure
from shoal.bench.workbench import NotMeasured, Workbench

ROUNDS = 4


class Counting(Case):
    """Two pieces of work a round."""

    name = "counting"

    def set_up(self, bench: Workbench) -> None:
        self.drawn, self.ran, self.ended = 0, 0, 0

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        self.drawn += 1
        return {"work": Sample([self._work] * 2, 1000)}

    def _work(self) -> None:
        self.ran += 1

    def tear_down(self) -> None:
        self.ended += 1


class Failing(Counting):
    """Finds out late that it cannot."""

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        raise NotMeasured("no reason")


class Twice(Against):
    """Two jobs."""

    name = "twice"

    def set_up(self, bench: Workbench) -> None:
        pass

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        return {"once": Sample([lambda: None], 0), "twice": Sample([lambda: None] * 2, 0)}


def test_every_round_draws_and_runs_fresh_work_after_one_that_warms_up(bench: Workbench) -> None:
    case = Counting()
    result = measure(case, bench, ROUNDS)
    assert (case.drawn, case.ran, case.ended) == (ROUNDS + 1, 2 * (ROUNDS + 1), 1)
    assert result.rounds + result.dropped == ROUNDS
    assert len(bench.probe.rates) == ROUNDS


def test_seconds_and_bytes_are_those_of_one_piece(bench: Workbench) -> None:
    result = measure(Counting(), bench, ROUNDS)
    assert result.nbytes == 1000
    assert result.unit == "of the probe"
    assert result.value == result.ratio > 0


def test_a_case_that_ends_early_gives_its_memory_back(bench: Workbench) -> None:
    case = Failing()
    with pytest.raises(NotMeasured):
        measure(case, bench, ROUNDS)
    assert case.ended == 1


def test_a_comparison_is_the_other_s_time_over_its_own(bench: Workbench) -> None:
    case = Twice()
    assert case.ratio({"once": 2.0, "twice": 6.0}, 0, 1e9) == 3
    result = measure(case, bench, ROUNDS)
    assert (result.unit, result.value) == ("times", result.ratio)
    assert set(result.more) == {"probe_gb_per_second", "seconds_once", "seconds_twice"}


def test_kernels_that_the_machine_lacks_are_a_reason(bench: Workbench) -> None:
    with pytest.raises(NotMeasured, match="has no `quantum`"):
        bench.kernels("quantum")
