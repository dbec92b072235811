"""A request's body to a checked object, whatever is sent."""

import asyncio
import json
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from shoal.serve.errors import ApiError
from shoal.serve.foreign_fields import Refused, refuse
from shoal.serve.options import Limits
from shoal.serve.served import served_of

Body = TypeVar("Body", bound=BaseModel)
# A body above this is parsed outside of the event loop.
_SMALL_NBYTES = 256 * 1024


def body_of(kind: type[Body], refused: Refused = MappingProxyType({})) -> Callable[[Request], Any]:
    """A dependency that gives a route its body as `kind`, without what is `refused`. Raises `ApiError`."""

    async def read(request: Request) -> Body:
        value = await read_object(request, served_of(request).options.limits)
        refuse(value, refused)
        return checked(kind, value)

    return read


async def read_object(request: Request, limits: Limits) -> dict[str, Any]:
    """The JSON object that was sent, of any content type, within the limits."""
    content = await _read(request, limits)
    parse = _parse if len(content) <= _SMALL_NBYTES else _parse_in_thread
    found = parse(content, limits.json_depth)
    value = await found if asyncio.iscoroutine(found) else found
    if not isinstance(value, dict):
        found_kind = type(value).__name__
        raise ApiError(400, f"the body is a `{found_kind}`, expected a JSON object", code="invalid_json")
    return value


def checked(kind: type[Body], value: dict[str, Any]) -> Body:
    """`value` as `kind`, or the first thing that is wrong with it, by its path."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        first = problems[0]
        path = _path(first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ApiError(400, f"`{path}`: {message}{more}", param=path, code="invalid_value") from None


def _path(parts: Iterable[str | int]) -> str:
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "body"


async def _read(request: Request, limits: Limits) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limits.body_nbytes:
        raise _too_large(limits, f"{int(declared):,}")
    chunks, nbytes = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                nbytes += len(chunk)
                if nbytes > limits.body_nbytes:
                    raise _too_large(limits, f"more than {limits.body_nbytes:,}")
                chunks.append(chunk)
    except TimeoutError:
        raise ApiError(408, f"the body did not come within {limits.body_seconds:.0f} s", code="timeout") from None
    except ClientDisconnect:
        raise ApiError(400, "the client left before its body was read", code="disconnected") from None
    return b"".join(chunks)


def _too_large(limits: Limits, found: str) -> ApiError:
    return ApiError(
        413,
        f"the body has {found} bytes, expected at most {limits.body_nbytes:,}",
        code="body_too_large",
        hint="the server's `--max-body` sets the limit.",
    )


def _parse(content: bytes, most_depth: int) -> Any:
    try:
        value = json.loads(content, parse_constant=_refuse)
    except RecursionError:
        raise _too_deep(most_depth) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise ApiError(400, f"the body is not JSON: {error}", code="invalid_json") from None
    if is_deeper(value, most_depth):
        raise _too_deep(most_depth)
    return value


async def _parse_in_thread(content: bytes, most_depth: int) -> Any:
    return await asyncio.to_thread(_parse, content, most_depth)


def _refuse(constant: str) -> None:
    raise ValueError(f"`{constant}` is no number of JSON")


def _too_deep(most_depth: int) -> ApiError:
    return ApiError(400, f"the body is nested more than {most_depth} deep, expected less", code="too_deep")


def is_deeper(value: Any, most: int) -> bool:
    """Whether lists and objects lie in each other more than `most` deep."""
    level = [value] if isinstance(value, list | dict) else []
    for _ in range(most):
        if not level:
            return False
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [value for values in inner for value in values if isinstance(value, list | dict)]
    return bool(level)
