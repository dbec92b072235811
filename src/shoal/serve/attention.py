"""Work for a client that waits for it, and only as long as it does; and several answers as one stream."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request

from shoal.serve.errors import ApiError

Result = TypeVar("Result")
Item = TypeVar("Item")


async def attended(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """What `work` gives. It is cancelled, and `ApiError` raised which nobody will read, when the client leaves."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ApiError(499, "the client left", code="disconnected")
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def merged(streams: Sequence[AsyncGenerator[Item, None]]) -> AsyncGenerator[tuple[int, Item], None]:
    """The items of all, each with the number of its stream, as they come; the first error ends all."""
    if len(streams) == 1:
        # Most requests want one answer: a task for each of its items would be a third of what a token costs here.
        async with aclosing(streams[0]) as only:
            async for item in only:
                yield 0, item
        return
    waiting = {asyncio.create_task(_next(stream)): number for number, stream in enumerate(streams)}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                number = waiting.pop(task)
                if (found := task.result()) is None:
                    continue
                waiting[asyncio.create_task(_next(streams[number]))] = number
                yield number, found[0]
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for stream in streams:
            await stream.aclose()


async def _next(stream: AsyncGenerator[Item, None]) -> tuple[Item] | None:
    try:
        return (await anext(stream),)
    except StopAsyncIteration:
        return None
