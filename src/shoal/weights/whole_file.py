"""Text files that are there whole or not at all."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from shoal.errors import OptionError


def write_whole(file: Path, parts: Iterable[str]) -> None:
    """Write `parts` to `file` through a temporary file beside it. OptionError where that fails; the old file stays."""
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.writelines(parts)
            stream.flush()
            # Before the name moves: after a power cut there is the old file or the new one.
            os.fsync(stream.fileno())
        Path(temporary).replace(file)
    except OSError as problem:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
        raise OptionError(f"cannot write `{file}`: {problem.strerror}") from None
