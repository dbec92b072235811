"""The thread that writes: in order, once, not what was withdrawn, and it ends."""

import threading
import time

import pytest

from shoal.engine.prefix_writer import PrefixWriter
from watchdog import within


class Item:
    """Compared by identity."""


def gated() -> tuple[PrefixWriter[Item], threading.Event, threading.Event, list[Item]]:
    """A writer that tells when it has begun the first item and goes on when it may."""
    begun, may_go_on, written = threading.Event(), threading.Event(), list[Item]()

    def write(item: Item) -> None:
        begun.set()
        may_go_on.wait(10)
        written.append(item)

    return PrefixWriter(write), begun, may_go_on, written


def test_what_waits_is_written_in_order_and_once() -> None:
    writer, begun, may_go_on, written = gated()
    items = [Item() for _ in range(3)]
    writer.add(items[0])
    begun.wait(10)
    for item in (items[1], items[2], items[1]):
        writer.add(item)
    may_go_on.set()
    assert writer.flush(10) and written == items
    writer.close(1)


def test_only_what_is_being_written_cannot_be_withdrawn() -> None:
    writer, begun, may_go_on, written = gated()
    first, second = Item(), Item()
    writer.add(first)
    begun.wait(10)
    writer.add(second)
    assert writer.withdraw(second) and not writer.withdraw(first) and writer.withdraw(Item())
    may_go_on.set()
    assert writer.flush(10) and written == [first] and writer.withdraw(first)
    writer.close(1)


def test_the_end_waits_for_so_long_and_no_longer() -> None:
    writer, begun, may_go_on, written = gated()
    writer.add(Item())
    begun.wait(10)
    started = time.monotonic()
    within(lambda: writer.close(0.2), 10)
    assert time.monotonic() - started >= 0.2 and not written
    may_go_on.set()


def test_after_the_end_nothing_is_taken() -> None:
    written = list[Item]()
    writer: PrefixWriter[Item] = PrefixWriter(written.append)
    writer.close(1)
    writer.add(Item())
    assert writer.flush(1) and not written


def test_a_writer_that_died_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(item: Item) -> None:
        raise RuntimeError("a mistake in the program")

    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    writer: PrefixWriter[Item] = PrefixWriter(write)
    item = Item()
    writer.add(item)
    assert within(lambda: writer.flush(5), 10) and writer.withdraw(item)
    writer._thread.join(5)
    writer.add(Item())
    assert writer.flush(5)
