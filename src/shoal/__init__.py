"""Shoal runs DeepSeek-V4.1-Flash from the released files, exactly.

`import shoal` imports nothing heavy: torch comes with the first name that needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.api import Engine, Shoal, generate, load, stream
    from shoal.tracing.trace import trace

__all__ = ["Engine", "Shoal", "generate", "load", "stream", "trace"]

_HOMES = {
    "Engine": "shoal.api",
    "Shoal": "shoal.api",
    "generate": "shoal.api",
    "load": "shoal.api",
    "stream": "shoal.api",
    "trace": "shoal.tracing.trace",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module `shoal` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
