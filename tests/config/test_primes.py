from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.config.primes import is_prime, primes_from
from shoal.errors import EngramError


def _divides_nothing(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


@given(st.integers(0, 20_000))
def test_primality_is_what_trial_division_says(number: int) -> None:
    assert is_prime(number) == _divides_nothing(number)


# Composites that fool Miller-Rabin with the first 4, 7 and 9 prime bases, and a square of a prime.
@pytest.mark.parametrize("number", [3215031751, 341550071728321, 3825123056546413051, 4294967291**2])
def test_a_strong_pseudoprime_is_no_prime(number: int) -> None:
    assert not is_prime(number)


@pytest.mark.parametrize("number", [2, 37, 601, 16000057, 2**61 - 1, 18446744073709551557])
def test_a_prime_is_prime_up_to_64_bits(number: int) -> None:
    assert is_prime(number)


@given(st.integers(-5, 100_000), st.integers(1, 30))
def test_the_scan_skips_no_prime_and_repeats_none(start: int, count: int) -> None:
    found = list(islice(primes_from(start), count))
    assert found == [number for number in range(max(start, 0), found[-1] + 1) if _divides_nothing(number)]


def test_the_scan_includes_its_start() -> None:
    assert next(primes_from(601)) == 601


def test_the_scan_ends_at_64_bits_with_an_error() -> None:
    with pytest.raises(EngramError, match=r"`engram_vocab_size` 18446744073709551558"):
        next(primes_from(18446744073709551558))
