"""JSON files for other programs, whole or not at all."""

import json
import os
import tempfile
from pathlib import Path

from shoal.errors import OptionError


def check_writable(file: Path) -> None:
    """Raises `OptionError` where nothing can be written, so that work of an hour is not lost for want of a place."""
    if file.is_dir():
        raise OptionError(f"cannot write `{file}`: it is a directory, expected a file's name")
    try:
        tempfile.TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise OptionError(f"cannot write `{file}`: {error.strerror}") from None


def write_json(file: Path, content: object) -> None:
    """Write `content` to `file` through a temporary file; `OptionError` where it cannot be written."""
    temporary = None
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
        temporary = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        temporary.replace(file)
    except OSError as error:
        if temporary:
            temporary.unlink(missing_ok=True)
        raise OptionError(f"cannot write `{file}`: {error.strerror}") from None
