import pytest

from shoal.doctor.finding import Finding, Level, has_problem, ok, problem, tally, warning


def test_a_finding_is_one_line_with_what_to_do() -> None:
    assert ok("cores", "8").line() == "[ok] cores: 8"
    assert warning("cores", "2 of 8", "raise it").line() == "[warning] cores: 2 of 8; raise it"
    assert problem("memory", "none", "buy some").line() == "[problem] memory: none; buy some"


@pytest.mark.parametrize(("level", "advice"), [(Level.OK, "do it"), (Level.PROBLEM, None), (Level.WARNING, None)])
def test_only_what_is_not_ok_has_advice(level: Level, advice: str | None) -> None:
    with pytest.raises(AssertionError):
        Finding("cores", "8", level, advice)


def test_only_a_problem_is_one() -> None:
    fine, bad, worse = ok("a", "b"), warning("a", "b", "c"), problem("a", "b", "c")
    assert not has_problem([fine, bad])
    assert has_problem([fine, worse])
    assert tally([fine, bad, bad]) == "1 ok, 2 warnings, 0 problems"
    assert tally([bad, worse]) == "0 ok, 1 warning, 1 problem"
