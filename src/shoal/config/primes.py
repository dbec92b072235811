"""Primes by upward scan: every Engram column has its own prime number of buckets (spec §6.1)."""

from collections.abc import Iterator

from shoal.errors import EngramError

LIMIT = 2**64

# The first twelve primes decide every n < 3.3e24 without chance (Sorenson and Webster, 2015).
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def is_prime(number: int) -> bool:
    """Whether `number` is prime, decided exactly for every value below 2^64."""
    assert number < LIMIT, number
    if number < 2:
        return False
    for witness in _WITNESSES:
        if number % witness == 0:
            return number == witness
    return all(_passes(number, witness) for witness in _WITNESSES)


def primes_from(start: int) -> Iterator[int]:
    """The primes at or above `start`, ascending, each once; `EngramError` beyond 2^64."""
    number = max(start, 2)
    while number < LIMIT:
        if is_prime(number):
            yield number
        number += 1
    raise EngramError(f"no prime is left at or above `engram_vocab_size` {start}, wanted one below 2^64")


def _passes(number: int, witness: int) -> bool:
    """Miller-Rabin: whether the odd `number` looks prime to `witness`."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    power = pow(witness, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False
