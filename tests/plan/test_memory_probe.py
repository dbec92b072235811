"""The probe reads what it says it reads; its rate is not tested, being the machine's."""

import pytest

from shoal.errors import OptionError
from shoal.plan import memory_probe
from shoal.plan.memory_probe import buffer_nbytes, measure_memory
from shoal.plan.size import GIB, MIB


@pytest.mark.parametrize("threads", [1, 3])
def test_it_gives_a_plausible_rate_and_share(threads: int) -> None:
    rate = measure_memory(threads, 16 * MIB)
    assert 1e7 < rate.per_second < 1e13
    assert 0 < rate.processor_share < 1.5


def test_every_thread_fills_and_reads_its_own_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    # A byte of the wrong value would be found, which the probe asserts against.
    monkeypatch.setattr(memory_probe, "ABSENT", memory_probe.FILL)
    monkeypatch.setattr("threading.excepthook", lambda args: None)
    with pytest.raises(ValueError, match="not enough values"):
        measure_memory(2, MIB)


def test_memory_that_cannot_be_had_is_an_option_error() -> None:
    with pytest.raises(OptionError, match=r"cannot take [0-9,]+ bytes to measure the memory with"):
        measure_memory(1, 1 << 62)


def test_the_buffer_is_large_but_a_quarter_of_the_free_memory_at_most() -> None:
    assert buffer_nbytes(2, 64 * GIB) == GIB
    assert buffer_nbytes(192, 512 * GIB) == 12 * GIB
    assert buffer_nbytes(2, 2 * GIB) == GIB // 2
    assert buffer_nbytes(64, 0) == 64 * MIB
