"""Reads a small JSON object from a file nobody vouches for; only `ConfigError` gets out."""

import json
import stat
from pathlib import Path
from typing import NoReturn

from shoal.errors import ConfigError

LARGEST_FILE = 1 << 20
"""Bytes. The released file has 3,500; anything above a MiB is some other file."""

_LONGEST_SHOWN = 60


def read_json_object(path: Path) -> dict[str, object]:
    """The object in `path`. A repeated key, NaN or endless nesting is an error, not a choice."""
    text = _decode(_read(path), path)
    try:
        value = json.loads(text, object_pairs_hook=_refuse_repeats, parse_constant=_refuse_constant)
    except ConfigError as error:
        raise ConfigError(f"{error.message} in `{path}`") from None
    except RecursionError:
        raise ConfigError(f"`{path}` is nested too deeply to be read, wanted at most a few levels") from None
    except ValueError as error:  # malformed JSON, or an integer of thousands of digits
        raise ConfigError(f"`{path}` is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"`{path}` holds {describe(value)}, wanted a JSON object")
    return value


def describe(value: object) -> str:
    """A JSON value in a few printable characters, for a message."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**40:  # str() refuses thousands of digits
        return "an integer of more than 40 digits"
    text = json.dumps(value)  # escapes what a terminal must not see
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _read(path: Path) -> bytes:
    try:
        # Asked before opening, since opening a pipe would wait for a writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"`{path}` is not a regular file, wanted a config in JSON")
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read `{path}`: {reason}") from None
    if not data:
        raise ConfigError(f"`{path}` is empty, wanted a config in JSON")
    if len(data) > LARGEST_FILE:
        raise ConfigError(f"`{path}` is larger than {LARGEST_FILE:,} bytes, wanted a config in JSON")
    return data


def _decode(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"`{path}` is not UTF-8 at byte {error.start}, wanted a config in JSON"
        raise ConfigError(message) from None


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content: dict[str, object] = {}
    for key, value in pairs:
        if key in content:
            first, second = describe(content[key]), describe(value)
            raise ConfigError(f"key {describe(key)} is stated twice ({first} and {second}), wanted once,")
        content[key] = value
    return content


def _refuse_constant(name: str) -> NoReturn:
    raise ConfigError(f"the value {name} is not JSON; wanted a finite number,")
