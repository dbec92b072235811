"""What goes wrong, as a client is told: a status, a sentence and what to do, in the shape of the protocol asked."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.errors import EngineStoppedError, OptionError, PromptError, QueueFullError, ShoalError

INVALID, SERVER = "invalid_request_error", "server_error"
_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
}


@dataclass
class ApiError(Exception):
    """An answer that is an error. `param` names the field at fault, `code` is for programs, `hint` for people."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    hint: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    @property
    def kind(self) -> str:
        """The `type` that OpenAI gives such an error."""
        return _KINDS.get(self.status, INVALID if self.status < 500 else SERVER)


_FIELD = re.compile(r"`([a-z_]\w*(?:[.\[][\w.\[\]]*)?)`")

Shape = Callable[[ApiError], dict[str, Any]]


def openai_shape(error: ApiError) -> dict[str, Any]:
    """The body of an error as OpenAI's clients read it; the hint is a sentence more of its message."""
    message = error.message if error.hint is None else f"{error.message}\n\nhint: {error.hint}"
    return {"error": {"message": message, "type": error.kind, "param": error.param, "code": error.code}}


SHAPES: dict[str, Shape] = {}
"""Of paths that begin so, and do not answer in OpenAI's shape."""


def shape_of(path: str) -> Shape:
    """How errors of `path` look."""
    return next((shape for prefix, shape in SHAPES.items() if path.startswith(prefix)), openai_shape)


def as_api_error(problem: ShoalError, retry_after: int = 1) -> ApiError:
    """`problem` as a client is told it; a full queue says to come back after so many seconds."""
    message, hint = problem.message, problem.hint
    match problem:
        case QueueFullError():
            headers = {"Retry-After": str(retry_after)}
            return ApiError(429, message, code="queue_full", hint=hint or "try again later.", headers=headers)
        case EngineStoppedError():
            return ApiError(503, message, code="engine_stopped", hint=hint)
        case PromptError() | OptionError():
            return ApiError(400, message, param=_quoted(message), hint=hint)
    return ApiError(500, message, hint=hint)


def _quoted(message: str) -> str | None:
    """The field that a sentence names first, as ours do: `name` is …"""
    found = _FIELD.search(message)
    return found[1] if found else None
