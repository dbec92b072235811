import pytest

from shoal.engine.kv_room import ByteRoom


def test_pages_and_rings_are_counted_in_bytes() -> None:
    room = ByteRoom(100, 10, 25, 8)
    assert room.longest == 7 * 8
    room.take(24, 1)
    assert (room.used_nbytes, room.total_nbytes) == (55, 100)
    assert room.fits(16, 1) and not room.fits(24, 1) and room.fits(32)
    room.give(24, 1)
    assert room.used_nbytes == 0


def test_room_without_a_limit_fits_everything() -> None:
    room = ByteRoom()
    assert room.longest is None and room.total_nbytes is None and room.fits(10**12, 10**6)


def test_room_for_less_than_the_rings_holds_no_token() -> None:
    assert ByteRoom(10, 10, 25, 8).longest == 0


def test_wrong_counts_are_wrong_code() -> None:
    room = ByteRoom(100, 10, 25, 8)
    for call in (lambda: room.take(7), lambda: room.take(800), lambda: room.give(8)):
        with pytest.raises(AssertionError):
            call()
