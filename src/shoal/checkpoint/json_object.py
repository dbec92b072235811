"""JSON objects from files nobody vouches for: every lie of the text is an error before its values are used.

Standard library only.
"""

import json
from collections import Counter
from pathlib import Path

from shoal.errors import ShoalError

# Three times the whole release in one header. Hostile JSON takes twenty times its size in memory while it is read.
MAX_JSON_NBYTES = 32 << 20
# A header is three levels deep, an index two; the rest is room for free-form metadata.
MAX_JSON_DEPTH = 16
SHOWN_CHARACTERS = 120


class _DuplicateKeyError(ValueError):
    """Raised inside `json.loads`, which has no word for where it is."""


def parse_json_object(blob: bytes, where: Path | str, error: type[ShoalError]) -> dict[str, object]:
    """The JSON object in `blob`, which was read from the file (or its line) `where`.

    Raises `error` when it is too long, not UTF-8, nested deeper than `MAX_JSON_DEPTH`, not JSON, not an
    object, or has the same key twice in any object.
    """
    check_json_nbytes(len(blob), where, error)
    _check_depth(blob, where, error)
    try:
        value = json.loads(blob.decode("utf-8"), object_pairs_hook=_unique_pairs)
    except UnicodeDecodeError as problem:
        found = f"byte {problem.start}: {problem.reason}"
        raise error(f"{quoted(where)} holds JSON that is not UTF-8, {found}") from problem
    except _DuplicateKeyError as problem:
        raise error(f"{quoted(where)} has the key {problem} twice in one JSON object") from problem
    except ValueError as problem:  # malformed, or an integer of thousands of digits
        raise error(f"{quoted(where)} does not hold valid JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise error(f"{quoted(where)} holds {shown(value)}, expected a JSON object")
    return value


def check_json_nbytes(nbytes: int, where: Path | str, error: type[ShoalError]) -> None:
    """Raises `error` when `nbytes` of JSON are more than any real checkpoint has."""
    if nbytes > MAX_JSON_NBYTES:
        raise error(f"{quoted(where)} claims {nbytes:,} bytes of JSON, expected at most {MAX_JSON_NBYTES:,}")


def quoted(name: object) -> str:
    """`name` between backticks, shortened, and escaped where a terminal would obey instead of show it."""
    text = str(name)
    if not text.isprintable():
        text = text.encode("unicode_escape", errors="backslashreplace").decode("ascii")
    return f"`{_shortened(text)}`"


def shown(value: object) -> str:
    """A parsed JSON value as JSON again, shortened, for the "found" part of a message."""
    return _shortened(json.dumps(value))


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text):,} characters)"


def _unique_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise _DuplicateKeyError(quoted(counts.most_common(1)[0][0]))
    return members


def _check_depth(blob: bytes, where: Path | str, error: type[ShoalError]) -> None:
    """Looked at before `json.loads`, which answers nesting with the interpreter's own RecursionError."""
    # Every second piece between quotes is outside a string, once escaped quotes are gone.
    outside = b"".join(blob.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    depth = 0
    for bracket in outside.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_JSON_DEPTH:
            raise error(f"{quoted(where)} nests its JSON deeper than {MAX_JSON_DEPTH} levels")


_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
