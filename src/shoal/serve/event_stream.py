"""Server-sent events: headers at once, a sign of life while a prompt is read, and an end when the client leaves."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shoal.engine.events import PromptEvent
from shoal.errors import ShoalError
from shoal.serve.errors import ApiError, Shape, as_api_error, openai_shape
from shoal.serve.options import ServeOptions

Frame = PromptEvent | str
"""How far the prompt is, which is told now and then, or what is to be sent as it stands."""
KeepAlive = Callable[[PromptEvent | None], str]
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def frame(data: object, event: str | None = None) -> str:
    """One event; `data` is JSON, but for a string, which stands as it is."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"data: {text}\n\n" if event is None else f"event: {event}\ndata: {text}\n\n"


def comment(progress: PromptEvent | None) -> str:
    """A line that clients skip: `: prompt 2048/9000 cached 1024`."""
    if progress is None:
        return ": waiting\n\n"
    return f": prompt {progress.done}/{progress.total} cached {progress.cached}\n\n"


class EventStream(Response):
    """Sends `frames` as they come. An error behind the headers is an `error` event, in `shape`, and the end.

    The frames are closed, which ends what makes them, when the client leaves or reads nothing for too long.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: AsyncGenerator[Frame, None],
        options: ServeOptions,
        *,
        shape: Shape = openai_shape,
        keep_alive: KeepAlive = comment,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(None, headers=_HEADERS | (headers or {}), media_type=self.media_type)
        del self.headers["content-length"]
        self._frames, self._options, self._shape, self._keep_alive = frames, options, shape, keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until the frames, or the client, end."""
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (leaving, sending):
                task.cancel()
            # The request must have ended before this returns; how, is of no interest to a client that left.
            _, sent = await asyncio.gather(leaving, sending, return_exceptions=True)
        if isinstance(sent, Exception) and not isinstance(sent, OSError | TimeoutError):
            raise sent

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        await self._write(send, self._keep_alive(None))
        async with aclosing(self._told()) as told:
            async for text in told:
                await self._write(send, text)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send, text: str) -> None:
        async with asyncio.timeout(self._options.send_seconds):
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

    async def _told(self) -> AsyncGenerator[str, None]:
        """The frames as text, errors too, with a sign of life wherever nothing came for a while."""
        loop, progress, told = asyncio.get_running_loop(), None, 0.0
        try:
            async with aclosing(_with_silences(self._frames, self._options.keep_alive)) as frames:
                async for each in frames:
                    if isinstance(each, str):
                        yield each
                        continue
                    progress = each or progress
                    if each is None or loop.time() - told >= self._options.keep_alive:
                        told = loop.time()
                        yield self._keep_alive(progress)
        except ApiError as error:
            yield frame(self._shape(error), "error")
        except ShoalError as problem:
            yield frame(self._shape(as_api_error(problem)), "error")


async def _with_silences(frames: AsyncGenerator[Frame, None], seconds: float) -> AsyncGenerator[Frame | None, None]:
    """`frames`, and None whenever none came for `seconds`."""
    following = asyncio.create_task(_next(frames))
    try:
        while True:
            done, _ = await asyncio.wait((following,), timeout=seconds)
            if not done:
                yield None
            elif (each := following.result()) is None:
                return
            else:
                following = asyncio.create_task(_next(frames))
                yield each
    finally:
        following.cancel()
        # What it raises is raised above, or nobody is left to hear it.
        await asyncio.gather(following, return_exceptions=True)
        await frames.aclose()


async def _next(frames: AsyncGenerator[Frame, None]) -> Frame | None:
    return await anext(frames, None)


async def _left(receive: Receive) -> None:
    """Returns when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
