"""Suites by name, the built-in ones, or from a file of JSON lines (`docs/evaluation.md` has the format)."""

from collections.abc import Sequence
from pathlib import Path

from shoal.checkpoint.json_object import quoted
from shoal.errors import EvalError
from shoal.eval.item import Suite
from shoal.eval.item_line import read_item

NAMES = ("facts", "chat", "tools", "json", "arithmetic", "copying", "text")
FOLDER = Path(__file__).parents[1] / "data" / "eval"
SUFFIX = ".jsonl"
# Of a file and of one line; a line's JSON is some twenty times its size in memory.
MOST_FILE_NBYTES, MOST_LINE_NBYTES = 64 << 20, 1 << 20


def load_suites(names: Sequence[str] = NAMES) -> tuple[Suite, ...]:
    """The suites of these names, all built-in ones if absent; a name that ends in `.jsonl` is a file's.

    Raises `EvalError`, naming file, line, field, found and wanted.
    """
    for place, name in enumerate(names):
        if name in names[:place]:
            raise EvalError(f"the suite {quoted(name)} is given twice")
        if name not in NAMES and not name.endswith(SUFFIX):
            listed = ", ".join(f"`{known}`" for known in NAMES)
            raise EvalError(f"there is no suite {quoted(name)}, expected one of {listed} or a file `*{SUFFIX}`")
    return tuple(read_suite(FOLDER / f"{name}{SUFFIX}" if name in NAMES else Path(name), name) for name in names)


def read_suite(file: Path, name: str) -> Suite:
    """The items of a file, one a line; blank lines are passed over. Raises `EvalError`."""
    lines = _read(file).split(b"\n")
    items = [
        read_item(_checked_line(line, f"{file}:{number}"), f"{file}:{number}", number)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not items:
        raise EvalError(f"{quoted(file)} has no items, expected a JSON object a line")
    return Suite(name, items)


def _checked_line(line: bytes, where: str) -> bytes:
    if len(line) > MOST_LINE_NBYTES:
        raise EvalError(f"{quoted(where)} is {len(line):,} bytes, expected at most {MOST_LINE_NBYTES:,} a line")
    return line


def _read(file: Path) -> bytes:
    if file.exists() and not file.is_file():
        raise EvalError(f"{quoted(file)} is not a file, expected JSON lines")
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_FILE_NBYTES + 1)
    except OSError as error:
        raise EvalError(f"cannot read the suite {quoted(file)}: {error.strerror}") from None
    if len(content) > MOST_FILE_NBYTES:
        raise EvalError(f"{quoted(file)} has over {MOST_FILE_NBYTES:,} bytes, expected at most that")
    return content
