import pytest

from shoal.checkpoint.huge_pages import HUGE_PAGE_NBYTES
from shoal.errors import OptionError
from shoal.weights.arena import Arena


@pytest.mark.parametrize(("slot_nbytes", "num_slots"), [(4096, 1), (4096, 700), (12_288, 300)])
def test_slots_are_whole_pages_and_none_overlap(slot_nbytes: int, num_slots: int) -> None:
    arena = Arena(slot_nbytes, num_slots)
    starts = [arena.slot(i).data_ptr() for i in range(num_slots)]
    assert all(start % 4096 == 0 for start in starts)
    assert [start - starts[0] for start in starts] == [i * slot_nbytes for i in range(num_slots)]
    if arena.nbytes >= HUGE_PAGE_NBYTES:
        assert starts[0] % HUGE_PAGE_NBYTES == 0
    for i in (0, num_slots - 1):
        arena.slot(i).fill_(i % 256)
    assert arena.slot(0).eq(0).all() and len(arena.slot(0)) == slot_nbytes


def test_more_than_there_can_be_is_refused() -> None:
    with pytest.raises(OptionError, match=r"refuses .* of memory for experts"):
        Arena(1 << 40, 1 << 16)
