"""The keys that clients must know: given, or in a file, one a line."""

from pathlib import Path

from shoal.errors import OptionError

MOST_NBYTES = 64 * 1024


def read_keys(file: Path) -> tuple[str, ...]:
    """The lines of `file` that are not empty and no `#` comment. Raises `OptionError` where there is none."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_NBYTES + 1)
    except OSError as error:
        raise OptionError(f"cannot read the API keys of `{file}`: {error.strerror}") from None
    if len(content) > MOST_NBYTES:
        raise OptionError(f"`{file}` has more than {MOST_NBYTES:,} bytes, expected API keys, one a line")
    try:
        lines = [line.strip() for line in content.decode().splitlines()]
    except UnicodeDecodeError:
        raise OptionError(f"`{file}` is not text, expected API keys, one a line") from None
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise OptionError(f"`{file}` holds no API key, expected one a line")
    return checked_keys(keys)


def checked_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    """`keys` that can be sent in a header; raises `OptionError` for another."""
    for key in keys:
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise OptionError(f"an API key of {len(key)} characters cannot be sent, expected visible ASCII characters")
    return keys
