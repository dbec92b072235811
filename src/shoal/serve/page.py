"""The page at `/`: files of this package and nothing else, under a policy that lets a browser run or load no other."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

FOLDER = Path(__file__).parent / "page"
PREFIX = "/page/"
OPEN = ("/", "/favicon.ico", PREFIX)
"""What anybody may read: it holds no secret."""

# No inline script or style, no other origin, no plug-in, no frame around it; and no text becomes markup: the page
# sets textContent only, and the browser holds it to that.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Asked for again each time, and answered with 304 while it is the same: a newer server brings its own page.
    "Cache-Control": "no-cache",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    """A file as it is sent; `tag` names its content."""

    content: bytes
    media_type: str
    tag: str


@cache
def page_files() -> dict[str, PageFile]:
    """All there are, by name, read once: a request can name no other."""
    found = {}
    for file in sorted(FOLDER.iterdir()):
        if file.suffix in _TYPES:
            content = file.read_bytes()
            found[file.name] = PageFile(content, _TYPES[file.suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def index(request: Request) -> Response:
    """The page itself. No key is asked for: it holds nothing, and asks the user for one."""
    return _send("index.html", request)


@router.api_route("/favicon.ico", methods=["GET", "HEAD"])
async def icon(request: Request) -> Response:
    """Browsers ask for it by this name, whatever a page says."""
    return _send("icon.svg", request)


@router.api_route(PREFIX + "{name}", methods=["GET", "HEAD"])
async def other(name: str, request: Request) -> Response:
    """What the page needs."""
    return _send(name, request)


def _send(name: str, request: Request) -> Response:
    file = page_files().get(name)
    if file is None:
        return Response("there is no such file", 404, _HEADERS, "text/plain; charset=utf-8")
    headers = {**_HEADERS, "ETag": file.tag}
    if file.tag in request.headers.get("If-None-Match", ""):
        return Response(None, 304, headers)
    return Response(file.content, 200, headers, file.media_type)
