"""What a request was and how it ended, in a line: never a word of what was asked or said."""

import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

Say = Callable[[str], None]


class RequestLog:
    """Middleware that says a line on each request when it has ended; `observe` hears path, status and seconds."""

    def __init__(self, app: ASGIApp, say: Say | None, observe: Callable[[str, int, float], None]) -> None:
        self._app, self._say, self._observe = app, say, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.monotonic(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            seconds = time.monotonic() - started
            route = scope.get("route")
            self._observe(getattr(route, "path", "other"), status, seconds)
            if self._say is not None:
                self._say(_line(scope, status, seconds))


def _line(scope: Scope, status: int, seconds: float) -> str:
    path = scope["path"].encode("ascii", "backslashreplace").decode()[:200]
    usage = scope.get("state", {}).get("usage")
    client = scope.get("client") or ("-", 0)
    line = f"{client[0]} {scope['method']} {path} {status or 'left'} {seconds:.2f} s"
    if usage is not None:
        line += f"; prompt {usage.prompt} cached {usage.cached} answer {usage.completion}"
    return line
