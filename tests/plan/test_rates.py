import pytest

from shoal.errors import OptionError
from shoal.plan.rates import ASSUMED, Rate


@pytest.mark.parametrize("per_second", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_is_a_positive_number(per_second: float) -> None:
    with pytest.raises(OptionError, match="was given, wanted more than 0"):
        Rate(per_second, "given")


def test_the_defaults_say_that_they_are_assumed() -> None:
    assert {rate.origin for rate in (ASSUMED.memory, ASSUMED.disk, ASSUMED.arithmetic)} == {"assumed"}
