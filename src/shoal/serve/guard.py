"""Who may ask: a key where one is set, compared in constant time, and no web page of a stranger."""

import hmac
import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.serve.errors import ApiError, shape_of
from shoal.serve.options import ServeOptions

MOST_HEADER_NBYTES = 64 * 1024
OPEN_PATHS = ("/health", "/ready")
"""For whoever watches the server; they say nothing of what it is asked."""


class Guard:
    """Middleware that answers what may not pass. `pages` are paths that anybody may read: files without secrets."""

    def __init__(self, app: ASGIApp, options: ServeOptions, pages: tuple[str, ...] = ()) -> None:
        self._app, self._options = app, options
        self._open = (*OPEN_PATHS, *pages)
        self._keys = [key.encode() for key in options.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers 401 or 403."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(scope["path"], scope["method"], Headers(scope=scope))
        except ApiError as error:
            body = shape_of(scope["path"])(error)
            response = JSONResponse(body, error.status, headers=dict(error.headers))
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, path: str, method: str, headers: Headers) -> None:
        nbytes = sum(len(name) + len(value) for name, value in headers.raw)
        if nbytes > MOST_HEADER_NBYTES:
            message = f"the headers have {nbytes:,} bytes, expected at most {MOST_HEADER_NBYTES:,}"
            raise ApiError(431, message, code="headers_too_large")
        self._check_host(headers.get("host", ""))
        self._check_origin(headers.get("origin"), headers.get("host", ""))
        is_page = method in ("GET", "HEAD") and any(_is_under(path, each) for each in self._open)
        if self._keys and not is_page:
            self._check_key(headers)

    def _check_key(self, headers: Mapping[str, str]) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        # All of them always: time tells nothing about which was nearly right.
        matches = [hmac.compare_digest(given.encode("latin-1", "replace"), key) for key in self._keys]
        if any(matches):
            return
        found = "the API key is wrong" if given else "there is no API key"
        raise ApiError(
            401,
            f"{found}, expected one of the server's",
            code="invalid_api_key",
            hint="send it as `Authorization: Bearer KEY`.",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _check_origin(self, origin: str | None, host: str) -> None:
        """A page may ask its own server, or one that names it; a browser says whose page it is."""
        allowed = self._options.origins
        if origin is None or "*" in allowed or origin.rstrip("/") in allowed:
            return
        if urlsplit(origin).netloc == host:
            return
        raise ApiError(
            403,
            f"a page of `{origin[:200]}` may not ask this server",
            code="origin_not_allowed",
            hint="start it with `--cors ORIGIN` if it should.",
        )

    def _check_host(self, host: str) -> None:
        """Without a key only this machine's names count: a stranger's name may be made to point here."""
        if self._keys or not self._options.is_local or not host or is_loopback(urlsplit(f"//{host}").hostname or ""):
            return
        raise ApiError(
            403,
            f"the server was asked as `{host[:200]}`, expected `localhost` or its address",
            code="host_not_allowed",
            hint="behind a proxy set `--api-key`, or let it send the Host `localhost`.",
        )


def _is_under(path: str, prefix: str) -> bool:
    return path == prefix or (prefix.endswith("/") and prefix != "/" and path.startswith(prefix))


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address, is this machine's to itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
