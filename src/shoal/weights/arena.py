"""Memory for experts, in slots of one size."""

from torch import Tensor

from shoal.checkpoint.direct_file import ALIGNMENT
from shoal.checkpoint.private_memory import forget
from shoal.weights.page_room import page_room


class Arena:
    """`num_slots` slots of `slot_nbytes`, whole pages, end to end in pages of 2 MiB; taken when first written to."""

    def __init__(self, slot_nbytes: int, num_slots: int) -> None:
        """Raises OptionError where the system refuses so much."""
        assert slot_nbytes % ALIGNMENT == 0 and num_slots > 0, (slot_nbytes, num_slots)
        self.slot_nbytes, self.num_slots = slot_nbytes, num_slots
        self._bytes = page_room(self.nbytes, "experts")

    @property
    def nbytes(self) -> int:
        """Bytes of all slots."""
        return self.slot_nbytes * self.num_slots

    def slot(self, index: int) -> Tensor:
        """uint8 [slot_nbytes]; begins at a page."""
        assert 0 <= index < self.num_slots, (index, self.num_slots)
        return self._bytes[index * self.slot_nbytes : (index + 1) * self.slot_nbytes]

    def release(self, index: int) -> None:
        """The system has the slot's memory back, until it is written to again."""
        forget(self.slot(index).data_ptr(), self.slot_nbytes)
