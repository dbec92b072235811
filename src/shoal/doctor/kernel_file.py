"""The small text files in which the kernel states facts. Absent or unreadable is None, since kernels differ."""

from pathlib import Path


def read_text(path: Path) -> str | None:
    """The content without the whitespace around it."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    """The content as one integer; None for anything else, such as `max`."""
    return as_number(read_text(path))


def read_fields(path: Path) -> dict[str, int]:
    """Lines of `name value` or `name: value kB`: names to values, those of kB in bytes. Other lines are skipped."""
    fields = {}
    for line in (read_text(path) or "").splitlines():
        words = line.split()
        value = as_number(words[1]) if len(words) > 1 else None
        if value is not None:
            fields[words[0].removesuffix(":")] = value * (1024 if words[2:] == ["kB"] else 1)
    return fields


def as_number(text: str | None) -> int | None:
    """An integer in decimal digits, or None."""
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
