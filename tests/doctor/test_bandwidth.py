import pytest

from shoal.doctor.bandwidth import examine_disk_rate, examine_memory_rate
from shoal.doctor.finding import Level


def test_a_rate_is_told_as_seconds_a_token() -> None:
    assert "13.03 GB, so at best 0.389 s" in examine_memory_rate(33.5e9, 1.0, 13.03e9).text
    assert (
        "2.20 GB/s by O_DIRECT; a token whose experts are all missed waits 2.05 s"
        in examine_disk_rate(2.2e9, True, 4.51e9).text
    )


def test_a_small_model_reads_something_too() -> None:
    assert "a token reads 0.0047 GB, so at best 0.00014 s" in examine_memory_rate(33.5e9, 1.0, 4.7e6).text


@pytest.mark.parametrize(
    ("per_second", "share", "level", "advice"),
    [
        (33e9, 0.99, Level.OK, None),
        (33e9, 0.5, Level.WARNING, "another program is busy"),
        (10e9, 0.99, Level.WARNING, "fill every memory channel"),
    ],
)
def test_slow_memory_and_a_busy_machine_are_told_apart(
    per_second: float, share: float, level: Level, advice: str | None
) -> None:
    finding = examine_memory_rate(per_second, share, 13e9)
    assert finding.level is level
    assert (finding.advice or "").startswith(advice or "")


@pytest.mark.parametrize(
    ("per_second", "direct", "level"),
    [(2e9, True, Level.OK), (2e9, False, Level.WARNING), (0.2e9, True, Level.WARNING)],
)
def test_a_slow_disk_and_a_missing_o_direct_are_warnings(per_second: float, direct: bool, level: Level) -> None:
    assert examine_disk_rate(per_second, direct, 4.5e9).level is level
