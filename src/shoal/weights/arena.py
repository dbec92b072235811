"""Memory for experts, in slots of one size."""

from torch import Tensor

from shoal.checkpoint.direct_file import ALIGNMENT
from shoal.checkpoint.huge_pages import room_for
from shoal.errors import OptionError
from shoal.plan.size import gib


class Arena:
    """`num_slots` slots of `slot_nbytes`, whole pages, end to end in pages of 2 MiB; taken when first written to."""

    def __init__(self, slot_nbytes: int, num_slots: int) -> None:
        """Raises OptionError where the system refuses so much."""
        assert slot_nbytes % ALIGNMENT == 0 and num_slots > 0, (slot_nbytes, num_slots)
        self.slot_nbytes, self.num_slots = slot_nbytes, num_slots
        try:
            room = room_for(self.nbytes + ALIGNMENT)
        except (OSError, RuntimeError, MemoryError):
            raise OptionError(f"the system refuses {gib(self.nbytes)} of memory for experts") from None
        start = -room.data_ptr() % ALIGNMENT
        self._bytes = room[start : start + self.nbytes]

    @property
    def nbytes(self) -> int:
        """Bytes of all slots."""
        return self.slot_nbytes * self.num_slots

    def slot(self, index: int) -> Tensor:
        """uint8 [slot_nbytes]; begins at a page."""
        assert 0 <= index < self.num_slots, (index, self.num_slots)
        return self._bytes[index * self.slot_nbytes : (index + 1) * self.slot_nbytes]
