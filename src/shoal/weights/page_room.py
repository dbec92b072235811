"""Room that whole pages of a shard can be read into."""

from torch import Tensor

from shoal.checkpoint.direct_file import ALIGNMENT
from shoal.checkpoint.huge_pages import room_for
from shoal.errors import OptionError
from shoal.plan.size import gib


def page_room(nbytes: int, purpose: str) -> Tensor:
    """uint8 [nbytes] that begins at a page, as of `room_for`. OptionError where the system refuses so much."""
    try:
        room = room_for(nbytes + ALIGNMENT)
    except (OSError, RuntimeError, MemoryError):
        raise OptionError(f"the system refuses {gib(nbytes)} of memory for {purpose}") from None
    start = -room.data_ptr() % ALIGNMENT
    return room[start : start + nbytes]
