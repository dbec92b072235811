import asyncio
import gc
import threading
from collections.abc import Callable

import pytest

from shoal.engine.events import PromptEvent, TokenEvent
from shoal.engine.request import Request
from shoal.engine.ticket import Ticket
from shoal.errors import CheckpointError
from watchdog import within

SECONDS = 20


def token(token_id: int | None, reason: str | None = None) -> TokenEvent:
    return TokenEvent(token_id, reason, 0.0)  # type: ignore[arg-type]


@pytest.fixture
def ticket() -> Ticket:
    return Ticket(Request((0,)))


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def write(ticket: Ticket, count: int) -> None:
    for index in range(count):
        ticket.put(token(index))
    ticket.put(token(None, "stop"))


def test_events_are_read_in_order_and_end_with_the_one_that_has_a_reason(ticket: Ticket) -> None:
    thread = in_thread(lambda: write(ticket, 100))
    events = within(lambda: list(ticket), SECONDS)
    thread.join()
    assert [event.token_id for event in events] == [*range(100), None]
    assert ticket.is_done and not ticket.is_cancelled
    assert list(ticket) == []


def test_of_unread_progress_only_the_latest_is_kept(ticket: Ticket) -> None:
    for done in range(5000):
        ticket.put(PromptEvent(done, 5000, 0))
    ticket.put(token(7))
    ticket.put(token(None, "stop"))
    assert list(ticket) == [PromptEvent(4999, 5000, 0), token(7), token(None, "stop")]


def test_nothing_comes_after_the_end(ticket: Ticket) -> None:
    ticket.put(token(None, "stop"))
    ticket.put(token(8))
    ticket.fail(CheckpointError("late"))
    assert list(ticket) == [token(None, "stop")]


def test_a_problem_comes_behind_the_events(ticket: Ticket) -> None:
    ticket.put(token(7))
    ticket.fail(CheckpointError("the disk is gone"))
    events = iter(ticket)
    assert next(events) == token(7)
    with pytest.raises(CheckpointError, match="the disk is gone"):
        next(events)
    with pytest.raises(CheckpointError):
        list(ticket)


def test_a_reader_that_leaves_cancels(ticket: Ticket) -> None:
    ticket.put(token(7))
    for _ in ticket:
        break
    gc.collect()
    assert ticket.is_cancelled


def test_cancelling_says_so_once_and_never_after_the_end() -> None:
    said = list[int]()
    ticket = Ticket(Request((0,)), on_cancel=lambda: said.append(1))
    ticket.cancel()
    ticket.cancel()
    assert said == [1] and ticket.is_cancelled
    ended = Ticket(Request((0,)), on_cancel=lambda: said.append(2))
    ended.put(token(None, "stop"))
    ended.cancel()
    assert said == [1] and not ended.is_cancelled


async def collect(ticket: Ticket) -> list[int | None]:
    return [event.token_id async for event in ticket if isinstance(event, TokenEvent)]


def test_no_wake_up_is_lost_between_a_thread_and_a_loop() -> None:
    async def main() -> list[list[int | None]]:
        tickets = [Ticket(Request((0,))) for _ in range(20)]
        threads = [in_thread(lambda ticket=ticket: write(ticket, 50)) for ticket in tickets]
        found = await asyncio.gather(*(collect(ticket) for ticket in tickets))
        for thread in threads:
            thread.join()
        return list(found)

    found = within(lambda: asyncio.run(main()), SECONDS)
    assert found == [[*range(50), None]] * 20


def test_a_loop_waits_for_an_event_that_comes_later(ticket: Ticket) -> None:
    async def main() -> list[int | None]:
        timer = threading.Timer(0.05, lambda: write(ticket, 1))
        timer.start()
        return await collect(ticket)

    assert within(lambda: asyncio.run(main()), SECONDS) == [0, None]


def test_each_of_two_loops_in_two_threads_reads_its_own() -> None:
    first, second = Ticket(Request((0,))), Ticket(Request((0,)))
    found = list[list[int | None]]()
    readers = [in_thread(lambda each=each: found.append(asyncio.run(collect(each)))) for each in (first, second)]
    for each in (first, second):
        write(each, 30)
    for reader in readers:
        reader.join(SECONDS)
    assert found == [[*range(30), None]] * 2


def test_a_problem_reaches_a_loop(ticket: Ticket) -> None:
    threading.Timer(0.02, lambda: ticket.fail(CheckpointError("gone"))).start()
    with pytest.raises(CheckpointError, match="gone"):
        within(lambda: asyncio.run(collect(ticket)), SECONDS)


def test_a_task_that_is_cancelled_cancels_the_request(ticket: Ticket) -> None:
    async def main() -> None:
        task = asyncio.create_task(collect(ticket))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    within(lambda: asyncio.run(main()), SECONDS)
    assert ticket.is_cancelled


def test_a_closed_loop_neither_breaks_the_writer_nor_keeps_the_request(ticket: Ticket) -> None:
    loop = asyncio.new_event_loop()
    events = ticket.__aiter__()
    reading = loop.create_task(events.__anext__())  # type: ignore[arg-type]
    loop.run_until_complete(asyncio.sleep(0))
    # Closed without a word to the reader, as a server that is killed does.
    loop.close()
    ticket.put(token(7))
    assert ticket.is_cancelled
    ticket.put(token(None, "cancelled"))
    reading._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_loop_runs_the_steps_where_no_thread_does() -> None:
    def step(ticket: Ticket) -> None:
        ticket.put(token(7, "length"))

    assert within(lambda: asyncio.run(collect(Ticket(Request((0,)), step))), SECONDS) == [7]
